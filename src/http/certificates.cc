#include "http/certificates.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tf::http {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;

absl::Status OpenSslError(const std::string& what) {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", text));
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

std::optional<absl::Time> TimeOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return absl::FromTM(parts, absl::UTCTimeZone());
}

Key NewKey() { return Key(EVP_EC_gen("P-256")); }

absl::StatusOr<std::string> KeyText(EVP_PKEY* key) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("cannot write a private key");
  }
  return Contents(bio.get());
}

absl::StatusOr<std::string> CertificateText(X509* certificate) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return OpenSslError("cannot write a certificate");
  }
  return Contents(bio.get());
}

bool AddName(X509_NAME* name, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// 127 random bits: positive, and never the same twice.
bool SetSerialNumber(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool set = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

// A certificate with everything but the extensions and the signature.
Certificate Draft(EVP_PKEY* key, const CertificateRequest& request, absl::Time now, absl::Time not_after) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  if (x == nullptr || X509_set_version(x, X509_VERSION_3) != 1 || !SetSerialNumber(x) || X509_set_pubkey(x, key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(x), absl::ToTimeT(now - absl::Hours(1))) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(x), absl::ToTimeT(not_after)) == nullptr) {
    return nullptr;
  }
  X509_NAME* name = X509_get_subject_name(x);
  for (const std::string& organization : request.organizations) {
    if (!AddName(name, "O", organization)) return nullptr;
  }
  return AddName(name, "CN", request.common_name) ? std::move(certificate) : nullptr;
}

}  // namespace

struct CertificateAuthority::Parsed {
  Certificate certificate;
  Key key;
};

absl::StatusOr<CertificateAuthority> CertificateAuthority::Create(const std::string& name, absl::Time now,
                                                                  absl::Duration life) {
  Key key = NewKey();
  if (key == nullptr) return OpenSslError("cannot make a key");
  Certificate certificate = Draft(key.get(), {.common_name = name}, now, now + life);
  if (certificate == nullptr) return OpenSslError(absl::StrCat("cannot make the authority '", name, "'"));
  X509* x = certificate.get();
  if (X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
      !AddExtension(x, x, NID_basic_constraints, "critical,CA:TRUE") ||
      !AddExtension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign,digitalSignature") ||
      !AddExtension(x, x, NID_subject_key_identifier, "hash") || X509_sign(x, key.get(), EVP_sha256()) == 0) {
    return OpenSslError(absl::StrCat("cannot make the authority '", name, "'"));
  }
  absl::StatusOr<std::string> certificate_text = CertificateText(x);
  if (!certificate_text.ok()) return certificate_text.status();
  absl::StatusOr<std::string> key_text = KeyText(key.get());
  if (!key_text.ok()) return key_text.status();
  return Load({*std::move(certificate_text), *std::move(key_text)});
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Load(KeyPair pair) {
  auto parsed = std::make_shared<Parsed>();
  Bio certificate(BIO_new_mem_buf(pair.certificate.data(), static_cast<int>(pair.certificate.size())));
  Bio key(BIO_new_mem_buf(pair.key.data(), static_cast<int>(pair.key.size())));
  parsed->certificate.reset(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  parsed->key.reset(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (parsed->certificate == nullptr) return absl::InvalidArgumentError("not a PEM certificate");
  if (parsed->key == nullptr) return absl::InvalidArgumentError("not a PEM private key");
  if (X509_check_private_key(parsed->certificate.get(), parsed->key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the private key is not that of the certificate");
  }
  if (X509_check_ca(parsed->certificate.get()) == 0) {
    return absl::InvalidArgumentError("the certificate is not that of an authority");
  }
  const std::optional<absl::Time> begin = TimeOf(X509_get0_notBefore(parsed->certificate.get()));
  const std::optional<absl::Time> end = TimeOf(X509_get0_notAfter(parsed->certificate.get()));
  if (!begin.has_value() || !end.has_value()) return OpenSslError("the certificate's times cannot be read");
  CertificateAuthority authority;
  authority.pair_ = std::move(pair);
  authority.not_before_ = *begin;
  authority.not_after_ = *end;
  authority.parsed_ = std::move(parsed);
  return authority;
}

absl::StatusOr<KeyPair> CertificateAuthority::Issue(const CertificateRequest& request, absl::Time now) const {
  const std::string failure = absl::StrCat("cannot make a certificate for '", request.common_name, "'");
  Key key = NewKey();
  if (key == nullptr) return OpenSslError(failure);
  Certificate certificate = Draft(key.get(), request, now, std::min(now + request.life, not_after_));
  if (certificate == nullptr) return OpenSslError(failure);

  std::vector<std::string> usage, names;
  if (request.server) usage.emplace_back("serverAuth");
  if (request.client) usage.emplace_back("clientAuth");
  for (const std::string& name : request.dns_names) names.push_back(absl::StrCat("DNS:", name));
  for (const std::string& address : request.ip_addresses) names.push_back(absl::StrCat("IP:", address));
  X509* x = certificate.get();
  X509* issuer = parsed_->certificate.get();
  if (X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(x, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(x, issuer, NID_authority_key_identifier, "keyid") ||
      (!usage.empty() && !AddExtension(x, issuer, NID_ext_key_usage, absl::StrJoin(usage, ","))) ||
      (!names.empty() && !AddExtension(x, issuer, NID_subject_alt_name, absl::StrJoin(names, ","))) ||
      X509_sign(x, parsed_->key.get(), EVP_sha256()) == 0) {
    return OpenSslError(failure);
  }
  absl::StatusOr<std::string> certificate_text = CertificateText(x);
  if (!certificate_text.ok()) return certificate_text.status();
  absl::StatusOr<std::string> key_text = KeyText(key.get());
  if (!key_text.ok()) return key_text.status();
  return KeyPair{*std::move(certificate_text), *std::move(key_text)};
}

std::vector<BundledCertificate> ReadBundle(const std::string& pem) {
  std::vector<BundledCertificate> found;
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (bio != nullptr) {
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) {
      const unsigned long error = ERR_peek_last_error();
      ERR_clear_error();
      if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE) break;
      if (BIO_eof(bio.get()) != 0) break;
      continue;  // a block that is broken
    }
    const std::optional<absl::Time> begin = TimeOf(X509_get0_notBefore(certificate.get()));
    const std::optional<absl::Time> end = TimeOf(X509_get0_notAfter(certificate.get()));
    absl::StatusOr<std::string> text = CertificateText(certificate.get());
    if (begin.has_value() && end.has_value() && text.ok()) found.push_back({*std::move(text), *begin, *end});
  }
  return found;
}

absl::StatusOr<SigningKey> NewSigningKey() {
  const Key key = NewKey();
  const Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) {
    return OpenSslError("cannot make a key");
  }
  absl::StatusOr<std::string> private_key = KeyText(key.get());
  if (!private_key.ok()) return private_key.status();
  return SigningKey{*std::move(private_key), Contents(bio.get())};
}

}  // namespace tf::http
