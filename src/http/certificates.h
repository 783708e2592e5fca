// X.509 certificates that we make ourselves: authorities, and what they sign. Keys are ECDSA P-256.
//
// Everything is valid from an hour before it is made, because clocks differ and step, and for as long as its maker
// says. Immutable once made; thread-safe. Errors: InvalidArgument (a text that is no certificate or key, or a pair that
// does not belong together), Internal (OpenSSL).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::http {

inline constexpr absl::Duration kTenYears = absl::Hours(24 * 3650);

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
  absl::Duration life = kTenYears;  // never beyond the authority's
};

class CertificateAuthority {
 public:
  static absl::StatusOr<CertificateAuthority> Create(const std::string& name, absl::Time now,
                                                     absl::Duration life = kTenYears);
  static absl::StatusOr<CertificateAuthority> Load(KeyPair pair);

  absl::StatusOr<KeyPair> Issue(const CertificateRequest& request, absl::Time now) const;

  const KeyPair& pair() const { return pair_; }
  absl::Time not_before() const { return not_before_; }
  absl::Time not_after() const { return not_after_; }

 private:
  struct Parsed;

  KeyPair pair_;
  absl::Time not_before_;
  absl::Time not_after_;
  std::shared_ptr<const Parsed> parsed_;
};

// A certificate of a PEM text that may hold many.
struct BundledCertificate {
  std::string pem = {};  // written anew: equal certificates have equal texts
  absl::Time not_before = {};
  absl::Time not_after = {};
};
// What is no certificate is passed over.
std::vector<BundledCertificate> ReadBundle(const std::string& pem);

// A key for signing tokens.
struct SigningKey {
  std::string private_key = {};  // PKCS #8
  std::string public_key = {};
};
absl::StatusOr<SigningKey> NewSigningKey();

}  // namespace tf::http
