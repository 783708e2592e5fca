// How an API server is reached and who we are there: from a kubeconfig, from a pod's service account, or put together
// by hand. Plain values; files and plugins named here are read by the Client, again and again.
//
// Follows kubectl and client-go: KUBECONFIG may name several files, of which the first that has a value wins; relative
// paths are relative to the file that names them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace tf::kube {

// A program that prints credentials (client.authentication.k8s.io). It is run without a terminal.
struct ExecPlugin {
  std::string command = {};  // a path, or a name that is looked up in PATH
  std::vector<std::string> args = {};
  std::vector<std::pair<std::string, std::string>> env = {};  // added to ours
  std::string api_version = {};                               // client.authentication.k8s.io/v1 or /v1beta1
  std::string install_hint = {};
  bool provide_cluster_info = false;
};

// One call as the server answered it; `code` is "200", or "<error>" without an answer.
struct CallSeen {
  std::string_view code;
  std::string_view method;
  std::string_view host;
  absl::Duration duration;  // of a stream: until it began
};

struct Config {
  std::string server = {};           // "https://10.0.0.1:6443", with a path where the API is below one
  std::string ns = "default";        // where commands without a namespace go
  std::string proxy_url = {};        // "": none
  std::string tls_server_name = {};  // "": the host of `server`
  bool insecure_skip_tls_verify = false;

  // PEM texts win over files; files are read again every minute.
  std::string ca_pem = {};
  std::string ca_file = {};  // neither: the system's certificates
  std::string certificate_pem = {};
  std::string certificate_file = {};
  std::string key_pem = {};
  std::string key_file = {};

  // A token file wins over a token, as in client-go; the token is what is used until the file can be read.
  std::string token = {};
  std::string token_file = {};
  std::string username = {};
  std::string password = {};
  std::optional<ExecPlugin> exec = {};
  // Impersonation: headers of every call.
  std::string as = {};
  std::string as_uid = {};
  std::vector<std::string> as_groups = {};
  std::vector<std::pair<std::string, std::string>> as_extra = {};

  std::function<void(const CallSeen&)> seen = {};  // told of each call, on its thread
  // Asked before each write is sent (again), on its thread: how long it may take at most. An error is the write's
  // answer, and nothing is sent: a leader whose lease ran out (fence.h).
  std::function<absl::StatusOr<absl::Duration>()> admit_write = {};
  Clock* clock = nullptr;  // RealClock()
};

struct ConfigOptions {
  std::string kubeconfig = {};  // --kubeconfig: this file alone
  std::string context = {};     // "": the current one
  // Taken from the process when not set.
  std::optional<std::map<std::string, std::string>> env = {};
  std::string service_account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// --kubeconfig, else KUBECONFIG, else the service account when in a pod, else ~/.kube/config. NotFound says where it
// looked; InvalidArgument names file, context and field.
absl::StatusOr<Config> LoadConfig(const ConfigOptions& options = {});

// The service account of the pod that this runs in (KUBERNETES_SERVICE_HOST and _PORT).
absl::StatusOr<Config> InClusterConfig(const ConfigOptions& options = {});

struct KubeconfigFile {
  std::string path;  // paths in it are relative to its folder
  std::string text;
};

// The config that these files give together, the first first. Pure, apart from `options.env` that only proxies are
// taken from.
absl::StatusOr<Config> ParseKubeconfig(const std::vector<KubeconfigFile>& files, const ConfigOptions& options = {});

// What HTTPS_PROXY, HTTP_PROXY and NO_PROXY (or in lower case) say of this server; "": no proxy. Loopback addresses
// never go through one.
std::string ProxyFromEnvironment(const std::string& server, const std::map<std::string, std::string>& env);

}  // namespace tf::kube
