#include "license/keys.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/encoding.h"
#include "license/license.h"

namespace tf::license {
namespace {

std::string_view AsText(const PublicKey& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

const uint8_t* AsBytes(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::shared_ptr<EVP_PKEY> Own(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

// The words of a line, without its comment.
std::vector<std::string_view> Words(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const size_t end = line.find_first_of(" \t\r");
    words.push_back(line.substr(0, end));
    line.remove_prefix(words.back().size());
  }
}

}  // namespace

bool IsWeakKey(const PublicKey& key) {
  // An encoding is y, little-endian, with the sign of x in the highest bit. The eight points whose order divides 8 have
  // five values of y between them.
  static constexpr std::string_view kSmallOrderY[] = {
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  };
  PublicKey y = key;
  y[31] &= 0x7f;
  const std::string hex = HexEncode(AsText(y));
  if (std::find(std::begin(kSmallOrderY), std::end(kSmallOrderY), hex) != std::end(kSmallOrderY)) return true;
  // Not below the prime 2^255 - 19: another spelling of a smaller y.
  return y[31] == 0x7f && y[0] >= 0xed && std::all_of(y.begin() + 1, y.end() - 1, [](uint8_t b) { return b == 0xff; });
}

bool SignatureHolds(const PublicKey& key, std::string_view message, const Signature& signature) {
  if (IsWeakKey(key)) return false;
  const auto public_key = Own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  return public_key != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), AsBytes(message), message.size()) == 1;
}

absl::StatusOr<Keyring> Keyring::Parse(std::string_view text, bool development) {
  Keyring ring;
  ring.development_ = development;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::vector<std::string_view> words = Words(line);
    if (words.empty()) continue;
    const auto wrong = [number](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("key ring, line ", number, ": ", what));
    };
    if (words.size() != 2) return wrong("expected a key id and a public key");
    if (!IsToken(words[0])) return wrong("the key id may have 1 to 64 letters, digits, '.', '_' and '-'");
    if (ring.Find(words[0]) != nullptr) return wrong("this key id stands above already");
    const std::optional<std::string> bytes = HexDecode(words[1]);
    if (!bytes || bytes->size() != sizeof(PublicKey)) {
      return wrong("the public key must be 64 lower-case hexadecimal digits");
    }
    Entry entry{std::string(words[0]), {}};
    std::memcpy(entry.key.data(), bytes->data(), bytes->size());
    if (IsWeakKey(entry.key)) {
      return wrong(
          "the public key has small order or is not canonical: anyone could sign for it; make one with tfctl license "
          "keygen");
    }
    ring.entries_.push_back(std::move(entry));
  }
  if (ring.entries_.empty()) return absl::InvalidArgumentError("key ring: it has no key, so no licence could pass");
  return ring;
}

const PublicKey* Keyring::Find(std::string_view kid) const {
  for (const Entry& entry : entries_) {
    if (entry.kid == kid) return &entry.key;
  }
  return nullptr;
}

std::string Keyring::KidList() const {
  std::string list;
  for (const Entry& entry : entries_) absl::StrAppend(&list, list.empty() ? "" : ", ", entry.kid);
  return list;
}

SigningKey::SigningKey(std::shared_ptr<EVP_PKEY> key, std::string kid) : key_(std::move(key)), kid_(std::move(kid)) {
  size_t length = public_key_.size();
  if (EVP_PKEY_get_raw_public_key(key_.get(), public_key_.data(), &length) != 1) public_key_.fill(0);
}

absl::StatusOr<SigningKey> SigningKey::Generate(std::string kid, std::string_view kid_prefix) {
  if (!kid.empty() && !IsToken(kid)) {
    return absl::InvalidArgumentError("a key id has 1 to 64 letters, digits, '.', '_' and '-'");
  }
  auto key = Own(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (key == nullptr) return absl::InternalError("OpenSSL made no Ed25519 key");
  SigningKey made(std::move(key), std::move(kid));
  if (made.kid_.empty()) made.kid_ = std::string(kid_prefix) + HexEncode(AsText(made.public_key_)).substr(0, 8);
  return made;
}

absl::StatusOr<SigningKey> SigningKey::FromFileText(std::string_view text) {
  const std::vector<std::string_view> words = Words(text.substr(0, text.find('\n')));
  if (words.size() != 2 || words[0] != "kid" || !IsToken(words[1])) {
    return absl::InvalidArgumentError("a private key file begins with a line 'kid NAME'");
  }
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  // An empty pass phrase instead of a question on the terminal.
  char no_pass_phrase[] = "";
  auto key = Own(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, no_pass_phrase));
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError("it holds no unencrypted Ed25519 private key in PEM");
  }
  return SigningKey(std::move(key), std::string(words[1]));
}

std::string SigningKey::ToFileText() const {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new(BIO_s_secmem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  const char* pem = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &pem);
  return absl::StrCat("kid ", kid_, "\n", absl::string_view(pem, static_cast<size_t>(length)));
}

std::string SigningKey::KeyringLine() const { return absl::StrCat(kid_, " ", HexEncode(AsText(public_key_))); }

absl::StatusOr<Signature> SigningKey::Sign(std::string_view message) const {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  Signature signature;
  size_t length = signature.size();
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &length, AsBytes(message), message.size()) != 1) {
    return absl::InternalError("OpenSSL did not sign");
  }
  return signature;
}

}  // namespace tf::license
