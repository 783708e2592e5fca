#include "standalone/credentials.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace tf::standalone {
namespace {

constexpr size_t kMaxPem = 1 << 16;
// What is signed with an authority shall not outlive it by surprise: one that ends within this is made anew.
constexpr absl::Duration kRenewBefore = absl::Hours(24 * 365);

absl::Status Named(const absl::Status& status, const std::string& file) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message(), "; to make it anew, remove it"));
}

absl::Status WritePair(const std::string& path, const http::KeyPair& pair) {
  // The key first: a certificate without a key is of no use to anybody, and both are read together.
  if (absl::Status status = WriteFile(path + ".key", pair.key, 0600); !status.ok()) return status;
  return WriteFile(path + ".crt", pair.certificate, 0600);
}

absl::StatusOr<http::CertificateAuthority> KeptAuthority(const std::string& path, const std::string& name,
                                                         absl::Time now) {
  absl::StatusOr<std::string> certificate = ReadFile(path + ".crt", kMaxPem);
  if (certificate.ok()) {
    absl::StatusOr<std::string> key = ReadFile(path + ".key", kMaxPem);
    if (!key.ok()) return key.status();
    absl::StatusOr<http::CertificateAuthority> kept =
        http::CertificateAuthority::Load({*std::move(certificate), *std::move(key)});
    if (!kept.ok()) return Named(kept.status(), path + ".crt");
    if (kept->not_after() - now > kRenewBefore) return kept;
  } else if (!absl::IsNotFound(certificate.status())) {
    return certificate.status();
  }
  absl::StatusOr<http::CertificateAuthority> made = http::CertificateAuthority::Create(name, now);
  if (!made.ok()) return made.status();
  if (absl::Status status = WritePair(path, made->pair()); !status.ok()) return status;
  return made;
}

absl::Status KeptSigningKey(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", credentials::kServiceAccountKey);
  const std::string public_path = absl::StrCat(folder, "/", credentials::kServiceAccountPublicKey);
  // Written last: when it is there, both are.
  const absl::StatusOr<std::string> kept = ReadFile(path, kMaxPem);
  if (!absl::IsNotFound(kept.status())) return kept.status();
  const absl::StatusOr<http::SigningKey> key = http::NewSigningKey();
  if (!key.ok()) return key.status();
  if (absl::Status status = WriteFile(public_path, key->public_key, 0600); !status.ok()) return status;
  return WriteFile(path, key->private_key, 0600);
}

}  // namespace

absl::StatusOr<Credentials> PrepareCredentials(const std::string& folder, const std::string& service_address,
                                               absl::Time now) {
  const auto authority = [&](const std::string& file, const std::string& name) {
    return KeptAuthority(absl::StrCat(folder, "/", file.substr(0, file.rfind('.'))), name, now);
  };
  const absl::StatusOr<http::CertificateAuthority> cluster = authority(credentials::kClusterCa, "tensor-fusion");
  if (!cluster.ok()) return cluster.status();
  const absl::StatusOr<http::CertificateAuthority> node_client =
      authority(credentials::kNodeClientCa, "tensor-fusion node client");
  if (!node_client.ok()) return node_client.status();
  const absl::StatusOr<http::CertificateAuthority> front_proxy =
      authority(credentials::kFrontProxyCa, "tensor-fusion front proxy");
  if (!front_proxy.ok()) return front_proxy.status();
  if (absl::Status status = KeptSigningKey(folder); !status.ok()) return status;

  Credentials made{.ca_certificate = cluster->pair().certificate};
  http::KeyPair api_server, node, proxy;
  const struct {
    const http::CertificateAuthority& authority;
    http::CertificateRequest request;
    const char* file;  // nullptr: only in memory
    http::KeyPair& pair;
  } wanted[] = {
      {*cluster,
       {.common_name = "kube-apiserver",
        .dns_names = {"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
                      "kubernetes.default.svc.cluster.local"},
        .ip_addresses = {"127.0.0.1", service_address},
        .server = true},
       credentials::kApiServer,
       api_server},
      {*node_client, {.common_name = "kube-apiserver-kubelet-client", .client = true}, credentials::kNodeClient, node},
      {*front_proxy, {.common_name = "front-proxy-client", .client = true}, credentials::kFrontProxy, proxy},
      {*cluster,
       {.common_name = "system:kube-controller-manager",
        .dns_names = {"localhost"},
        .ip_addresses = {"127.0.0.1"},
        .server = true,
        .client = true},
       credentials::kControllerManager,
       made.controller_manager},
      {*cluster,
       {.common_name = "system:kube-scheduler",
        .dns_names = {"localhost"},
        .ip_addresses = {"127.0.0.1"},
        .server = true,
        .client = true},
       credentials::kScheduler,
       made.scheduler},
      {*cluster,
       {.common_name = kProcessNodeUser,
        .dns_names = {"localhost"},
        .ip_addresses = {"127.0.0.1"},
        .server = true,
        .client = true},
       credentials::kProcessNode,
       made.process_node},
      {*cluster,
       {.common_name = "tensor-fusion:admin", .organizations = {"system:masters"}, .client = true},
       nullptr,
       made.admin},
  };
  for (const auto& [issuer, request, file, pair] : wanted) {
    absl::StatusOr<http::KeyPair> issued = issuer.Issue(request, now);
    if (!issued.ok()) return issued.status();
    if (file != nullptr) {
      if (absl::Status status = WritePair(absl::StrCat(folder, "/", file), *issued); !status.ok()) return status;
    }
    pair = *std::move(issued);
  }
  return made;
}

}  // namespace tf::standalone
