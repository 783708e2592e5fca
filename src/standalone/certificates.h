// X.509 certificates for a cluster of one machine: authorities, and what they sign. Keys are ECDSA P-256.
//
// Everything is valid for ten years, from an hour before it is made: clocks of one machine may step, but do not differ.
// Immutable once made; thread-safe. Errors: InvalidArgument (a text that is no certificate or key, or a pair that does
// not belong together), Internal (OpenSSL).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::standalone {

// PEM texts.
struct KeyPair {
  std::string certificate = {};
  std::string key = {};
};

struct CertificateRequest {
  std::string common_name = {};                 // the user's name, as Kubernetes reads client certificates
  std::vector<std::string> organizations = {};  // the user's groups
  std::vector<std::string> dns_names = {};
  std::vector<std::string> ip_addresses = {};
  bool server = false;  // extended key usage
  bool client = false;
};

class CertificateAuthority {
 public:
  static absl::StatusOr<CertificateAuthority> Create(const std::string& name, absl::Time now);
  static absl::StatusOr<CertificateAuthority> Load(KeyPair pair);

  absl::StatusOr<KeyPair> Issue(const CertificateRequest& request, absl::Time now) const;

  const KeyPair& pair() const { return pair_; }
  absl::Time not_after() const { return not_after_; }

 private:
  struct Parsed;

  KeyPair pair_;
  absl::Time not_after_;
  std::shared_ptr<const Parsed> parsed_;
};

// A key for signing tokens.
struct SigningKey {
  std::string private_key = {};  // PKCS #8
  std::string public_key = {};
};
absl::StatusOr<SigningKey> NewSigningKey();

}  // namespace tf::standalone
