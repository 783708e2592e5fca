#include "http/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>

namespace tf::http {
namespace {

void Check(bool good) {
  if (good) return;
  ERR_print_errors_fp(stderr);
  std::abort();
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Pem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  Check(PEM_write_bio_X509(bio, certificate) == 1);
  return Contents(bio);
}

std::string Pem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  Check(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return Contents(bio);
}

void AddName(X509_NAME* name, const char* field, const std::string& value) {
  Check(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                   static_cast<int>(value.size()), -1, 0) == 1);
}

void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  Check(extension != nullptr);
  Check(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(EVP_PKEY* key, const TestSubject& subject) {
  X509* certificate = X509_new();
  Check(certificate != nullptr);
  X509_set_version(certificate, 2);
  uint64_t serial = 0;
  Check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(subject.not_before));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(subject.not_after));
  X509_NAME* name = X509_get_subject_name(certificate);
  for (const std::string& organisation : subject.organisations) AddName(name, "O", organisation);
  AddName(name, "CN", subject.common_name);
  Check(X509_set_pubkey(certificate, key) == 1);
  return certificate;
}

}  // namespace

struct TestAuthority::State {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = nullptr;
  ~State() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

TestAuthority::TestAuthority(const std::string& common_name) : state_(std::make_unique<State>()) {
  Check(state_->key != nullptr);
  X509* certificate = NewCertificate(state_->key, {.common_name = common_name});
  state_->certificate = certificate;
  Check(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1);
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  Check(X509_sign(certificate, state_->key, EVP_sha256()) > 0);
  pem_ = Pem(certificate);
}

TestAuthority::~TestAuthority() = default;

TestPair TestAuthority::Sign(const TestSubject& subject) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  Check(key != nullptr);
  X509* certificate = NewCertificate(key, subject);
  Check(X509_set_issuer_name(certificate, X509_get_subject_name(state_->certificate)) == 1);
  AddExtension(certificate, state_->certificate, NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate, state_->certificate, NID_ext_key_usage, "serverAuth,clientAuth");
  std::string names;
  for (const std::string& name : subject.names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) AddExtension(certificate, state_->certificate, NID_subject_alt_name, names);
  Check(X509_sign(certificate, state_->key, EVP_sha256()) > 0);
  TestPair pair{Pem(certificate), Pem(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

TestPair TestAuthority::SignLoopback() const {
  return Sign({.common_name = "loopback", .names = {"DNS:localhost", "IP:127.0.0.1"}});
}

}  // namespace tf::http
