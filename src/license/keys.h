// Ed25519 keys (RFC 8032) by OpenSSL: the public ones that this program trusts, and the private one that signs.
//
// No algorithm is ever chosen by input. Objects are immutable and may be used from several threads.
#pragma once

#include <openssl/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tf::license {

using PublicKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;

// A key of small order, or a second encoding of a point: signatures of anyone would hold under such a key.
bool IsWeakKey(const PublicKey& key);

bool SignatureHolds(const PublicKey& key, std::string_view message, const Signature& signature);

// Key id -> public key.
class Keyring {
 public:
  // A line per key, `kid` and 64 hexadecimal digits; `#` begins a comment. InvalidArgument names the line: not of this
  // form, a repeated kid, a weak key, or no key at all.
  static absl::StatusOr<Keyring> Parse(std::string_view text, bool development);

  // nullptr when there is no such key.
  const PublicKey* Find(std::string_view kid) const;

  // The key pair was made by this build for itself: not for customers.
  bool development() const { return development_; }
  std::string KidList() const;  // "2026a, 2027a"

 private:
  struct Entry {
    std::string kid;
    PublicKey key;
  };
  std::vector<Entry> entries_;
  bool development_ = false;
};

// A private key with its key id. As a file: a line `kid NAME`, then PKCS #8 in PEM, which OpenSSL's tools read too.
class SigningKey {
 public:
  // An empty kid becomes `kid_prefix` and the first 8 hexadecimal digits of the public key.
  static absl::StatusOr<SigningKey> Generate(std::string kid, std::string_view kid_prefix = "key-");
  static absl::StatusOr<SigningKey> FromFileText(std::string_view text);

  std::string ToFileText() const;  // secret
  std::string KeyringLine() const;

  const std::string& kid() const { return kid_; }
  const PublicKey& public_key() const { return public_key_; }
  absl::StatusOr<Signature> Sign(std::string_view message) const;

 private:
  SigningKey(std::shared_ptr<EVP_PKEY> key, std::string kid);

  std::shared_ptr<EVP_PKEY> key_;
  std::string kid_;
  PublicKey public_key_;
};

}  // namespace tf::license
