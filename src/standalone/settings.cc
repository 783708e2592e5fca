#include "standalone/settings.h"

#include "absl/strings/str_cat.h"
#include "standalone/credentials.h"

namespace tf::standalone {
namespace {

constexpr char kMember[] = "tensor-fusion";
constexpr char kPeerSocket[] = "etcd:2380";

std::string Pem(const Layout& layout, const char* pair, const char* suffix) {
  return layout.Credential(absl::StrCat(pair, suffix));
}

std::string Flag(const char* name, const std::string& value) { return absl::StrCat("--", name, "=", value); }

}  // namespace

std::vector<std::string> EtcdArguments(const Layout& layout) {
  const std::string client = absl::StrCat("unix://", kStoreSocket);
  const std::string peer = absl::StrCat("unix://", kPeerSocket);
  std::vector<std::string> flags = {
      Flag("name", kMember),
      Flag("data-dir", absl::StrCat(layout.folder, "/etcd")),
      Flag("listen-client-urls", client),
      Flag("advertise-client-urls", client),
      Flag("listen-peer-urls", peer),
      Flag("initial-advertise-peer-urls", peer),
      Flag("initial-cluster", absl::StrCat(kMember, "=", peer)),
      // The API server compacts every five minutes; the space comes back by itself only up to a point.
      Flag("quota-backend-bytes", absl::StrCat(int64_t{8} << 30)),
      Flag("log-level", "warn"),
  };
  if (!layout.fsync) flags.emplace_back("--unsafe-no-fsync");
  return flags;
}

std::vector<std::string> ApiServerArguments(const Layout& layout) {
  std::vector<std::string> flags = {
      Flag("etcd-servers", absl::StrCat("unix://", kStoreSocket)),
      Flag("bind-address", "127.0.0.1"),
      Flag("secure-port", absl::StrCat(layout.api_server_port)),
      Flag("advertise-address", "127.0.0.1"),
      // It would keep trying to write its loopback address into endpoints, which refuse such addresses.
      Flag("endpoint-reconciler-type", "none"),
      Flag("tls-cert-file", Pem(layout, credentials::kApiServer, ".crt")),
      Flag("tls-private-key-file", Pem(layout, credentials::kApiServer, ".key")),
      Flag("client-ca-file", layout.Credential(credentials::kClusterCa)),
      Flag("authorization-mode", "RBAC"),
      Flag("allow-privileged", "true"),
      Flag("service-cluster-ip-range", kServiceRange),
      Flag("service-account-issuer", "https://kubernetes.default.svc"),
      Flag("service-account-key-file", layout.Credential(credentials::kServiceAccountPublicKey)),
      Flag("service-account-signing-key-file", layout.Credential(credentials::kServiceAccountKey)),
      // Nodes are met at their address: their names resolve nowhere.
      Flag("kubelet-preferred-address-types", "InternalIP"),
      Flag("kubelet-certificate-authority", layout.Credential(credentials::kClusterCa)),
      Flag("kubelet-client-certificate", Pem(layout, credentials::kNodeClient, ".crt")),
      Flag("kubelet-client-key", Pem(layout, credentials::kNodeClient, ".key")),
      // Extension API servers.
      Flag("requestheader-client-ca-file", layout.Credential(credentials::kFrontProxyCa)),
      Flag("requestheader-allowed-names", "front-proxy-client"),
      Flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
      Flag("requestheader-group-headers", "X-Remote-Group"),
      Flag("requestheader-username-headers", "X-Remote-User"),
      Flag("proxy-client-cert-file", Pem(layout, credentials::kFrontProxy, ".crt")),
      Flag("proxy-client-key-file", Pem(layout, credentials::kFrontProxy, ".key")),
      "--enable-aggregator-routing",
  };
  flags.insert(flags.end(), layout.api_server_flags.begin(), layout.api_server_flags.end());
  return flags;
}

std::vector<std::string> ControllerManagerArguments(const Layout& layout) {
  const std::string kubeconfig = layout.Run(kControllerManagerKubeconfig);
  return {
      Flag("kubeconfig", kubeconfig),
      Flag("authentication-kubeconfig", kubeconfig),
      Flag("authorization-kubeconfig", kubeconfig),
      Flag("bind-address", "127.0.0.1"),
      Flag("secure-port", absl::StrCat(layout.controller_manager_port)),
      Flag("tls-cert-file", Pem(layout, credentials::kControllerManager, ".crt")),
      Flag("tls-private-key-file", Pem(layout, credentials::kControllerManager, ".key")),
      Flag("leader-elect", "false"),
      "--use-service-account-credentials",
      Flag("root-ca-file", layout.Credential(credentials::kClusterCa)),
      Flag("service-account-private-key-file", layout.Credential(credentials::kServiceAccountKey)),
      Flag("cluster-signing-cert-file", layout.Credential(credentials::kClusterCa)),
      Flag("cluster-signing-key-file", layout.Credential(credentials::kClusterCaKey)),
      // With the defaults (20 and 30) a Deployment of 2,000 pods takes minutes instead of seconds.
      Flag("kube-api-qps", "2000"),
      Flag("kube-api-burst", "4000"),
  };
}

std::vector<std::string> SchedulerArguments(const Layout& layout) {
  const std::string kubeconfig = layout.Run(kSchedulerKubeconfig);
  return {
      Flag("config", layout.Run(kSchedulerConfigFile)),
      Flag("authentication-kubeconfig", kubeconfig),
      Flag("authorization-kubeconfig", kubeconfig),
      Flag("bind-address", "127.0.0.1"),
      Flag("secure-port", absl::StrCat(layout.scheduler_port)),
      Flag("tls-cert-file", Pem(layout, credentials::kScheduler, ".crt")),
      Flag("tls-private-key-file", Pem(layout, credentials::kScheduler, ".key")),
  };
}

std::string SchedulerConfig(const Layout& layout) {
  // Pods that want a vGPU are of a profile of their own, and of whoever chooses their cards.
  const std::string extender = layout.scheduler_extender.empty()
                                   ? ""
                                   : absl::StrCat(
                                         "profiles:\n"
                                         "  - schedulerName: default-scheduler\n"
                                         "  - schedulerName: tensor-fusion-scheduler\n"
                                         "extenders:\n"
                                         "  - urlPrefix: \"",
                                         layout.scheduler_extender,
                                         "\"\n"
                                         "    filterVerb: filter\n"
                                         "    prioritizeVerb: prioritize\n"
                                         "    bindVerb: bind\n"
                                         // The node that it has chosen goes before what the scheduler's own scores say.
                                         "    weight: 100\n"
                                         "    httpTimeout: 10s\n"
                                         "    nodeCacheCapable: true\n"
                                         "    managedResources:\n"
                                         "      - name: tensor-fusion.ai/vgpu\n"
                                         "        ignoredByScheduler: true\n");
  return absl::StrCat(
      "apiVersion: kubescheduler.config.k8s.io/v1\n"
      "kind: KubeSchedulerConfiguration\n"
      "clientConnection:\n"
      "  kubeconfig: \"",
      layout.Run(kSchedulerKubeconfig),
      "\"\n"
      "  qps: 1000\n"
      "  burst: 1000\n"
      "leaderElection:\n"
      "  leaderElect: false\n",
      extender);
}

}  // namespace tf::standalone
