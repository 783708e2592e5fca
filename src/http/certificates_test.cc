#include "http/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

namespace tf::http {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

struct X509Freer {
  void operator()(X509* x) const { X509_free(x); }
};
using X509Pointer = std::unique_ptr<X509, X509Freer>;

X509Pointer Read(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509Pointer certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
  BIO_free(bio);
  return certificate;
}

// As a peer verifies it: the chain, the time and the purpose.
int Verify(const std::string& ca, const std::string& certificate, int purpose, absl::Time now) {
  const X509Pointer root = Read(ca), leaf = Read(certificate);
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_time(context, 0, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_verify_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return error;
}

std::string Subject(const std::string& pem) {
  const X509Pointer certificate = Read(pem);
  BIO* bio = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(bio, X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, size);
  BIO_free(bio);
  return text;
}

TEST(Certificates, WhatAnAuthorityIssuesHolds) {
  const auto authority = CertificateAuthority::Create("an authority", kNow);
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto pair = authority->Issue({.common_name = "server",
                                      .dns_names = {"localhost", "kubernetes.default.svc"},
                                      .ip_addresses = {"127.0.0.1"},
                                      .server = true},
                                     kNow);
  ASSERT_TRUE(pair.ok()) << pair.status();
  const std::string& ca = authority->pair().certificate;
  for (const absl::Duration age : {-absl::Minutes(59), absl::ZeroDuration(), absl::Hours(24 * 3649)}) {
    EXPECT_EQ(Verify(ca, pair->certificate, X509_PURPOSE_SSL_SERVER, kNow + age), X509_V_OK) << age;
  }
  EXPECT_EQ(Verify(ca, pair->certificate, X509_PURPOSE_SSL_SERVER, kNow + absl::Hours(24 * 3651)),
            X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(Verify(ca, pair->certificate, X509_PURPOSE_SSL_CLIENT, kNow), X509_V_ERR_INVALID_PURPOSE);

  const X509Pointer leaf = Read(pair->certificate);
  EXPECT_EQ(X509_check_host(leaf.get(), "kubernetes.default.svc", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "elsewhere", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "127.0.0.2", 0), 0);
  EXPECT_EQ(authority->not_after(), kNow + absl::Hours(24 * 3650));
}

TEST(Certificates, NamesAreUsersAndGroups) {
  const auto authority = CertificateAuthority::Create("a", kNow);
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto pair =
      authority->Issue({.common_name = "tensor-fusion:x", .organizations = {"one", "two"}, .client = true}, kNow);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(Subject(pair->certificate), "CN=tensor-fusion:x,O=two,O=one");
  EXPECT_EQ(Verify(authority->pair().certificate, pair->certificate, X509_PURPOSE_SSL_CLIENT, kNow), X509_V_OK);
}

TEST(Certificates, AnotherAuthorityOfTheSameNameDoesNotVouch) {
  const auto one = CertificateAuthority::Create("a", kNow);
  const auto other = CertificateAuthority::Create("a", kNow);
  ASSERT_TRUE(one.ok() && other.ok());
  const auto pair = one->Issue({.common_name = "x", .client = true}, kNow);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_NE(Verify(other->pair().certificate, pair->certificate, X509_PURPOSE_SSL_CLIENT, kNow), X509_V_OK);
}

TEST(Certificates, ALeafIsNoAuthority) {
  const auto authority = CertificateAuthority::Create("a", kNow);
  ASSERT_TRUE(authority.ok()) << authority.status();
  const auto leaf = authority->Issue({.common_name = "x", .client = true}, kNow);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_THAT(std::string(CertificateAuthority::Load(*leaf).status().message()), HasSubstr("not that of an authority"));
}

TEST(Certificates, LoadRefusesWhatDoesNotBelongTogether) {
  const auto one = CertificateAuthority::Create("a", kNow);
  const auto other = CertificateAuthority::Create("b", kNow);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE(CertificateAuthority::Load(one->pair()).ok());
  const KeyPair mixed{one->pair().certificate, other->pair().key};
  EXPECT_THAT(std::string(CertificateAuthority::Load(mixed).status().message()),
              HasSubstr("not that of the certificate"));
  EXPECT_FALSE(CertificateAuthority::Load({"", one->pair().key}).ok());
  EXPECT_FALSE(CertificateAuthority::Load({one->pair().certificate, "nothing"}).ok());
}

TEST(Certificates, LivesAsLongAsItsMakerSaysAndNoLongerThanItsAuthority) {
  const auto authority = CertificateAuthority::Create("a", kNow, absl::Hours(48));
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_EQ(authority->not_before(), kNow - absl::Hours(1));
  EXPECT_EQ(authority->not_after(), kNow + absl::Hours(48));
  const auto short_lived = authority->Issue({.common_name = "x", .server = true, .life = absl::Hours(2)}, kNow);
  const auto long_lived = authority->Issue({.common_name = "x", .server = true, .life = absl::Hours(99)}, kNow);
  ASSERT_TRUE(short_lived.ok() && long_lived.ok());
  EXPECT_EQ(ReadBundle(short_lived->certificate).at(0).not_after, kNow + absl::Hours(2));
  EXPECT_EQ(ReadBundle(long_lived->certificate).at(0).not_after, kNow + absl::Hours(48));
}

TEST(Certificates, ABundleIsReadInOrderAndWhatIsNoneIsPassedOver) {
  const auto one = CertificateAuthority::Create("a", kNow);
  const auto other = CertificateAuthority::Create("b", kNow);
  ASSERT_TRUE(one.ok() && other.ok());
  const std::string broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const auto read =
      ReadBundle("# a comment\n" + one->pair().certificate + broken + "text\n" + other->pair().certificate);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].pem, one->pair().certificate);
  EXPECT_EQ(read[1].pem, other->pair().certificate);
  EXPECT_TRUE(ReadBundle("").empty());
  EXPECT_TRUE(ReadBundle("nothing").empty());
}

TEST(Certificates, SigningKey) {
  const auto key = NewSigningKey();
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_THAT(key->private_key, HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_THAT(key->public_key, HasSubstr("BEGIN PUBLIC KEY"));
}

}  // namespace
}  // namespace tf::http
