#include "license/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstring>
#include <optional>

#include "base/encoding.h"

namespace tf::license {
namespace {

using testing::HasSubstr;

template <typename T>
T FromHex(const std::string& hex) {
  const std::optional<std::string> bytes = HexDecode(hex);
  T value;
  EXPECT_EQ(bytes->size(), value.size());
  std::memcpy(value.data(), bytes->data(), value.size());
  return value;
}

// RFC 8032, section 7.1, tests 1 and 2.
TEST(Signature, VectorsOfTheRfc) {
  EXPECT_TRUE(SignatureHolds(
      FromHex<PublicKey>("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"), "",
      FromHex<Signature>(
          "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
          "d25bf5f0595bbe24655141438e7a100b")));
  const auto key = FromHex<PublicKey>("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const auto signature = FromHex<Signature>(
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
      "b00d"
      "291612bb0c00");
  EXPECT_TRUE(SignatureHolds(key, "\x72", signature));
  EXPECT_FALSE(SignatureHolds(key, "\x73", signature));

  // The same signature with the group order added to its second half: equal in arithmetic, refused.
  constexpr char kOrder[] = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
  const auto order = FromHex<PublicKey>(kOrder);
  Signature other = signature;
  int carry = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    carry += other[32 + i] + order[i];
    other[32 + i] = static_cast<uint8_t>(carry);
    carry >>= 8;
  }
  EXPECT_FALSE(SignatureHolds(key, "\x72", other));
}

std::vector<std::string> WeakKeys() {
  std::vector<std::string> keys = {
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  };
  for (size_t i = 0, n = keys.size(); i < n; ++i) {  // and with the sign of x
    std::string bytes = *HexDecode(keys[i]);
    bytes[31] = static_cast<char>(bytes[31] | 0x80);
    keys.push_back(HexEncode(bytes));
  }
  return keys;
}

TEST(WeakKeys, AreFoundAndEnterNoRing) {
  for (const std::string& hex : WeakKeys()) {
    EXPECT_TRUE(IsWeakKey(FromHex<PublicKey>(hex))) << hex;
    const absl::Status status = Keyring::Parse("good " + std::string(64, '5') + "\nbad " + hex, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << hex;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 2: the public key has small order"));
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(IsWeakKey(SigningKey::Generate("")->public_key()));
}

// Why the check is there: under the neutral element OpenSSL accepts one signature for every message.
TEST(WeakKeys, AnyoneCanSignForThem) {
  PublicKey neutral{1};
  Signature forged{1};
  EVP_PKEY* key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, neutral.data(), neutral.size());
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ASSERT_EQ(EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, key), 1);
  const std::string message = "anything";
  EXPECT_EQ(EVP_DigestVerify(context, forged.data(), forged.size(), reinterpret_cast<const uint8_t*>(message.data()),
                             message.size()),
            1);
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  EXPECT_FALSE(SignatureHolds(neutral, message, forged));
}

TEST(Ring, LinesCommentsAndErrors) {
  const std::string a = SigningKey::Generate("2026a")->KeyringLine();
  const std::string b = SigningKey::Generate("2027a")->KeyringLine();
  const absl::StatusOr<Keyring> ring = Keyring::Parse("# ours\n\n" + a + "   # first\r\n\t" + b + "\n", false);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(ring->KidList(), "2026a, 2027a");
  ASSERT_NE(ring->Find("2026a"), nullptr);
  EXPECT_EQ("2026a " + HexEncode({reinterpret_cast<const char*>(ring->Find("2026a")->data()), 32}), a);
  for (const char* kid : {"2028a", "", "2026", "2026A", "2026aa"}) EXPECT_EQ(ring->Find(kid), nullptr) << kid;
  EXPECT_FALSE(ring->development());

  const std::pair<std::string, const char*> wrong[] = {
      {"", "no key"},
      {"# nothing\n", "no key"},
      {"2026a", "line 1: expected"},
      {a + " more", "line 1: expected"},
      {a + "\n" + a, "line 2: this key id stands above"},
      {"2026a 00ff", "64 lower-case"},
      {"2026a " + std::string(64, 'F'), "64 lower-case"},
      {"2026;a " + std::string(64, '5'), "line 1: the key id"},
  };
  for (const auto& [text, message] : wrong) {
    EXPECT_THAT(std::string(Keyring::Parse(text, false).status().message()), HasSubstr(message)) << text;
  }
}

TEST(SigningKeyFile, RoundTripsAndRefusesOthers) {
  const SigningKey key = *SigningKey::Generate("2026a");
  const std::string text = key.ToFileText();
  EXPECT_TRUE(text.starts_with("kid 2026a\n-----BEGIN PRIVATE KEY-----\n"));
  const absl::StatusOr<SigningKey> again = SigningKey::FromFileText(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->KeyringLine(), key.KeyringLine());
  EXPECT_TRUE(SignatureHolds(key.public_key(), "message", *again->Sign("message")));

  EXPECT_FALSE(SigningKey::FromFileText("").ok());
  EXPECT_FALSE(SigningKey::FromFileText("kid 2026a\n").ok());
  EXPECT_FALSE(SigningKey::FromFileText(text.substr(text.find('\n') + 1)).ok());
  EXPECT_FALSE(SigningKey::FromFileText(text.substr(0, text.size() / 2)).ok());
  EXPECT_FALSE(SigningKey::Generate("a b").ok());
  const SigningKey named = *SigningKey::Generate("", "development-");
  EXPECT_EQ(named.KeyringLine().substr(0, 12 + 8 + 1 + 8),
            "development-" + HexEncode({reinterpret_cast<const char*>(named.public_key().data()), 4}) + " " +
                HexEncode({reinterpret_cast<const char*>(named.public_key().data()), 4}));
}

}  // namespace
}  // namespace tf::license
