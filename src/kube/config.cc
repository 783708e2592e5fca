#include "kube/config.h"

#include <arpa/inet.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/process.h"

namespace tf::kube {
namespace {

using Env = std::map<std::string, std::string>;

constexpr size_t kMaxFile = 4 << 20;  // bytes

Env EnvOf(const ConfigOptions& options) {
  if (options.env.has_value()) return *options.env;
  Env env;
  for (const std::string& line : CurrentEnvironment()) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) env.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return env;
}

std::string Get(const Env& env, const std::string& name) {
  const auto found = env.find(name);
  return found == env.end() ? std::string() : found->second;
}

// Reads fields of one mapping, and remembers the first thing that is wrong with one.
class Fields {
 public:
  Fields(YAML::Node node, std::string where) : node_(std::move(node)), where_(std::move(where)) {
    if (node_ && !node_.IsNull() && !node_.IsMap()) Fail("", "it is no mapping");
  }

  std::string Text(const std::string& name) {
    const YAML::Node field = At(name);
    if (!field || field.IsNull()) return "";
    if (field.IsScalar()) return field.Scalar();
    Fail(name, "expected a text");
    return "";
  }

  bool Flag(const std::string& name) {
    const std::string text = Text(name);
    if (text.empty() || text == "false") return false;
    if (text != "true") Fail(name, absl::StrCat("expected true or false, found \"", text, "\""));
    return text == "true";
  }

  std::vector<std::string> Texts(const std::string& name) {
    std::vector<std::string> texts;
    const YAML::Node field = At(name);
    if (!field || field.IsNull()) return texts;
    if (!field.IsSequence()) {
      Fail(name, "expected a list of texts");
      return texts;
    }
    for (const YAML::Node& item : field) {
      if (item.IsScalar()) {
        texts.push_back(item.Scalar());
      } else {
        Fail(name, "expected a list of texts");
      }
    }
    return texts;
  }

  // Base64 of a PEM text.
  std::string Pem(const std::string& name) {
    const std::string text = Text(name);
    std::string pem;
    if (text.empty()) return pem;
    if (!absl::Base64Unescape(text, &pem)) {
      Fail(name, "it is not base64");
    } else if (pem.find("-----BEGIN ") == std::string::npos) {
      Fail(name, "its base64 does not hold a PEM text");
    }
    return pem;
  }

  YAML::Node At(const std::string& name) const {
    return node_ && node_.IsMap() ? node_[name] : YAML::Node(YAML::NodeType::Undefined);
  }

  void Fail(const std::string& name, const std::string& why) {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(where_, name.empty() ? std::string() : ", field " + name, ": ", why));
  }
  const absl::Status& status() const { return status_; }

 private:
  const YAML::Node node_;
  const std::string where_;
  absl::Status status_;
};

// A named entry of clusters, users or contexts, and the file that it is from.
struct Entry {
  YAML::Node node;
  const KubeconfigFile* file = nullptr;
};
using Entries = std::map<std::string, Entry>;

absl::Status Collect(const YAML::Node& root, const KubeconfigFile& file, const std::string& list,
                     const std::string& inner, Entries& entries) {
  Fields fields(root, file.path);
  const YAML::Node items = fields.At(list);
  if (!items || items.IsNull()) return fields.status();
  if (!items.IsSequence()) fields.Fail(list, "expected a list");
  if (!fields.status().ok()) return fields.status();
  for (const YAML::Node& item : items) {
    Fields entry(item, absl::StrCat(file.path, ", ", list));
    const std::string name = entry.Text("name");
    if (entry.status().ok() && name.empty()) entry.Fail("name", "an entry needs one");
    if (!entry.status().ok()) return entry.status();
    entries.try_emplace(name, Entry{entry.At(inner), &file});  // the first wins
  }
  return absl::OkStatus();
}

std::string Names(const Entries& entries) {
  if (entries.empty()) return "there are none";
  return absl::StrCat("there are: ",
                      absl::StrJoin(entries, ", ", [](std::string* out, const auto& entry) { *out += entry.first; }));
}

std::string Resolved(const std::string& path, const KubeconfigFile& file) {
  if (path.empty() || path[0] == '/') return path;
  return (std::filesystem::path(file.path).parent_path() / path).lexically_normal().string();
}

absl::Status ReadCluster(const Entry& entry, const std::string& where, const Env& env, Config& config) {
  Fields fields(entry.node, where);
  config.server = fields.Text("server");
  config.ca_pem = fields.Pem("certificate-authority-data");
  if (config.ca_pem.empty()) config.ca_file = Resolved(fields.Text("certificate-authority"), *entry.file);
  config.insecure_skip_tls_verify = fields.Flag("insecure-skip-tls-verify");
  config.tls_server_name = fields.Text("tls-server-name");
  config.proxy_url = fields.Text("proxy-url");
  if (config.server.empty()) {
    fields.Fail("server", "it is missing; expected the URL of an API server, https://HOST:PORT");
  } else if (config.server.rfind("https://", 0) != 0 && config.server.rfind("http://", 0) != 0) {
    fields.Fail("server", absl::StrCat("\"", config.server, "\" is no URL; expected https://HOST:PORT"));
  }
  if (config.insecure_skip_tls_verify && !(config.ca_pem.empty() && config.ca_file.empty())) {
    fields.Fail("insecure-skip-tls-verify", "it contradicts the certificate authority beside it; remove one of them");
  }
  if (config.proxy_url.empty()) {
    config.proxy_url = ProxyFromEnvironment(config.server, env);
  } else {
    const std::string scheme = config.proxy_url.substr(0, config.proxy_url.find("://"));
    if (scheme != "http" && scheme != "https" && scheme != "socks5") {
      fields.Fail("proxy-url", "expected http://, https:// or socks5:// and a host");
    }
  }
  return fields.status();
}

absl::Status ReadPlugin(const YAML::Node& node, const std::string& where, const KubeconfigFile& file,
                        ExecPlugin& plugin) {
  Fields fields(node, where + ", exec");
  plugin.command = fields.Text("command");
  plugin.args = fields.Texts("args");
  plugin.api_version = fields.Text("apiVersion");
  plugin.install_hint = fields.Text("installHint");
  plugin.provide_cluster_info = fields.Flag("provideClusterInfo");
  if (plugin.command.empty()) fields.Fail("command", "it is missing");
  // A path is relative to the file, a bare name is looked up in PATH.
  if (plugin.command.find('/') != std::string::npos) plugin.command = Resolved(plugin.command, file);
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    fields.Fail("apiVersion", absl::StrCat("expected client.authentication.k8s.io/v1 or client.authentication.k8s.io/"
                                           "v1beta1, found \"",
                                           plugin.api_version, "\""));
  }
  if (fields.Text("interactiveMode") == "Always") {
    fields.Fail("interactiveMode", "a plugin that needs a terminal cannot be used here");
  }
  if (const YAML::Node env = fields.At("env"); env && !env.IsNull()) {
    if (!env.IsSequence()) {
      fields.Fail("env", "expected a list of name and value");
    } else {
      for (const YAML::Node& item : env) {
        Fields variable(item, where + ", exec, env");
        plugin.env.emplace_back(variable.Text("name"), variable.Text("value"));
        if (plugin.env.back().first.empty()) variable.Fail("name", "it is missing");
        if (!variable.status().ok()) return variable.status();
      }
    }
  }
  return fields.status();
}

absl::Status ReadUser(const Entry& entry, const std::string& where, Config& config) {
  Fields fields(entry.node, where);
  config.certificate_pem = fields.Pem("client-certificate-data");
  if (config.certificate_pem.empty()) {
    config.certificate_file = Resolved(fields.Text("client-certificate"), *entry.file);
  }
  config.key_pem = fields.Pem("client-key-data");
  if (config.key_pem.empty()) config.key_file = Resolved(fields.Text("client-key"), *entry.file);
  config.token = fields.Text("token");
  config.token_file = Resolved(fields.Text("tokenFile"), *entry.file);
  config.username = fields.Text("username");
  config.password = fields.Text("password");
  config.as = fields.Text("as");
  config.as_uid = fields.Text("as-uid");
  config.as_groups = fields.Texts("as-groups");
  const bool certificate = !config.certificate_pem.empty() || !config.certificate_file.empty();
  const bool key = !config.key_pem.empty() || !config.key_file.empty();
  if (certificate && !key) fields.Fail("client-key", "it is missing, the client certificate cannot be used without it");
  if (key && !certificate) fields.Fail("client-certificate", "it is missing, the client key is of no use without it");
  if (fields.At("auth-provider")) {
    fields.Fail("auth-provider", "Kubernetes removed it; use an exec plugin, a token or a client certificate");
  }
  if (const YAML::Node extra = fields.At("as-user-extra"); extra && extra.IsMap()) {
    Fields of_extra(extra, where + ", as-user-extra");
    for (const auto& item : extra) {
      const std::string key_text = item.first.IsScalar() ? item.first.Scalar() : "";
      for (std::string& value : of_extra.Texts(key_text)) config.as_extra.emplace_back(key_text, std::move(value));
    }
    if (!of_extra.status().ok()) return of_extra.status();
  }
  if (config.as.empty() && !(config.as_uid.empty() && config.as_groups.empty() && config.as_extra.empty())) {
    fields.Fail("as", "it is missing beside other fields of impersonation");
  }
  if (!fields.status().ok()) return fields.status();
  if (const YAML::Node exec = fields.At("exec"); exec && !exec.IsNull()) {
    return ReadPlugin(exec, where, *entry.file, config.exec.emplace());
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> Parse(const std::vector<KubeconfigFile>& files, const ConfigOptions& options) {
  Entries clusters, users, contexts;
  std::string context = options.context;
  std::vector<std::string> paths;
  for (const KubeconfigFile& file : files) {
    paths.push_back(file.path);
    YAML::Node root;
    try {
      root = YAML::Load(file.text);
    } catch (const YAML::Exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(file.path, ": no YAML: ", error.what()));
    }
    Fields fields(root, file.path);
    const std::string kind = fields.Text("kind"), version = fields.Text("apiVersion");
    if (!kind.empty() && kind != "Config") {
      fields.Fail("kind", absl::StrCat("expected Config, found \"", kind, "\": this is no kubeconfig"));
    }
    if (!version.empty() && version != "v1") {
      fields.Fail("apiVersion", absl::StrCat("expected v1, found \"", version, "\""));
    }
    if (context.empty()) context = fields.Text("current-context");
    if (!fields.status().ok()) return fields.status();
    for (absl::Status status :
         {Collect(root, file, "clusters", "cluster", clusters), Collect(root, file, "users", "user", users),
          Collect(root, file, "contexts", "context", contexts)}) {
      if (!status.ok()) return status;
    }
  }
  const std::string all = absl::StrJoin(paths, ":");
  if (context.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(all, ", field current-context: it is missing; set it or choose a context, ", Names(contexts)));
  }
  const auto chosen = contexts.find(context);
  if (chosen == contexts.end()) {
    return absl::InvalidArgumentError(absl::StrCat(all, ": no context \"", context, "\", ", Names(contexts)));
  }
  Fields fields(chosen->second.node, absl::StrCat(chosen->second.file->path, ", context ", context));
  const std::string cluster_name = fields.Text("cluster"), user_name = fields.Text("user");
  Config config;
  if (std::string ns = fields.Text("namespace"); !ns.empty()) config.ns = std::move(ns);
  const auto cluster = clusters.find(cluster_name);
  if (cluster == clusters.end()) {
    fields.Fail("cluster", absl::StrCat("no cluster \"", cluster_name, "\", ", Names(clusters)));
  }
  const auto user = users.find(user_name);
  if (!user_name.empty() && user == users.end()) {
    fields.Fail("user", absl::StrCat("no user \"", user_name, "\", ", Names(users)));
  }
  if (!fields.status().ok()) return fields.status();
  auto where = [&](const Entry& entry, const char* what, const std::string& name) {
    return absl::StrCat(entry.file->path, ", context ", context, ", ", what, " ", name);
  };
  absl::Status status =
      ReadCluster(cluster->second, where(cluster->second, "cluster", cluster_name), EnvOf(options), config);
  if (status.ok() && user != users.end()) {
    status = ReadUser(user->second, where(user->second, "user", user_name), config);
  }
  if (!status.ok()) return status;
  return config;
}

struct Address {
  unsigned char bytes[16] = {};
  int bits = 0;  // 32 or 128; 0: no address
};

Address AddressOf(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes) == 1) {
    address.bits = 32;
  } else if (inet_pton(AF_INET6, text.c_str(), address.bytes) == 1) {
    address.bits = 128;
  }
  return address;
}

bool IsLoopback(const std::string& host) {
  const Address address = AddressOf(host);
  if (address.bits == 32) return address.bytes[0] == 127;
  static constexpr unsigned char kOne[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (address.bits == 128) return std::memcmp(address.bytes, kOne, 16) == 0;
  return host == "localhost";
}

bool InNetwork(const std::string& host, const std::string& network) {
  const size_t slash = network.find('/');
  int prefix = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(network.substr(slash + 1), &prefix)) return false;
  const Address net = AddressOf(network.substr(0, slash)), address = AddressOf(host);
  if (net.bits == 0 || net.bits != address.bits || prefix < 0 || prefix > net.bits) return false;
  for (int bit = 0; bit < prefix; ++bit) {
    if ((net.bytes[bit / 8] ^ address.bytes[bit / 8]) & (0x80 >> bit % 8)) return false;
  }
  return true;
}

}  // namespace

std::string ProxyFromEnvironment(const std::string& server, const std::map<std::string, std::string>& env) {
  const size_t colon = server.find("://");
  if (colon == std::string::npos) return "";
  const bool secure = server.compare(0, colon, "https") == 0;
  std::string host = server.substr(colon + 3);
  host = absl::AsciiStrToLower(host.substr(0, host.find_first_of("/?#")));
  std::string port = secure ? "443" : "80";
  const size_t bracket = host.rfind(']');
  if (const size_t at = host.find(':', bracket == std::string::npos ? 0 : bracket); at != std::string::npos) {
    port = host.substr(at + 1);
    host.resize(at);
  }
  if (!host.empty() && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host.empty() || IsLoopback(host)) return "";

  auto either = [&](const char* upper, const char* lower) {
    const std::string value = Get(env, upper);
    return value.empty() ? Get(env, lower) : value;
  };
  for (const std::string& entry : std::vector<std::string>(absl::StrSplit(either("NO_PROXY", "no_proxy"), ','))) {
    std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(entry));
    if (name.empty()) continue;
    if (name == "*" || name == host || name == host + ":" + port || InNetwork(host, name)) return "";
    if (name.compare(0, 2, "*.") == 0) name.erase(0, 1);
    const std::string suffix = name.front() == '.' ? name : "." + name;
    if (host.size() > suffix.size() && host.compare(host.size() - suffix.size(), suffix.size(), suffix) == 0) return "";
  }
  const std::string proxy = secure ? either("HTTPS_PROXY", "https_proxy") : either("HTTP_PROXY", "http_proxy");
  return proxy.empty() || proxy.find("://") != std::string::npos ? proxy : "http://" + proxy;
}

absl::StatusOr<Config> ParseKubeconfig(const std::vector<KubeconfigFile>& files, const ConfigOptions& options) {
  try {
    return Parse(files, options);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("a kubeconfig that cannot be read: ", error.what()));
  }
}

absl::StatusOr<Config> InClusterConfig(const ConfigOptions& options) {
  const Env env = EnvOf(options);
  const std::string host = Get(env, "KUBERNETES_SERVICE_HOST"), port = Get(env, "KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return absl::NotFoundError(
        "not in a pod of Kubernetes: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  Config config;
  config.server = absl::StrCat("https://", host.find(':') == std::string::npos ? host : "[" + host + "]", ":", port);
  config.token_file = options.service_account_folder + "/token";
  config.ca_file = options.service_account_folder + "/ca.crt";
  if (absl::StatusOr<std::string> token = ReadFile(config.token_file, kMaxFile); !token.ok()) {
    return absl::NotFoundError(absl::StrCat("no service account in this pod: ", token.status().message()));
  }
  if (absl::StatusOr<std::string> ns = ReadFile(options.service_account_folder + "/namespace", kMaxFile); ns.ok()) {
    std::string name(absl::StripAsciiWhitespace(*ns));
    if (!name.empty()) config.ns = std::move(name);
  }
  config.proxy_url = ProxyFromEnvironment(config.server, env);
  return config;
}

absl::StatusOr<Config> LoadConfig(const ConfigOptions& options) {
  const Env env = EnvOf(options);
  std::vector<std::string> paths;
  std::string origin;
  if (!options.kubeconfig.empty()) {
    paths = {options.kubeconfig};
    origin = "--kubeconfig";
  } else if (const std::string list = Get(env, "KUBECONFIG"); !list.empty()) {
    paths = absl::StrSplit(list, ':', absl::SkipEmpty());
    origin = "KUBECONFIG";
  } else {
    if (!Get(env, "KUBERNETES_SERVICE_HOST").empty() && options.context.empty()) {
      absl::StatusOr<Config> config = InClusterConfig(options);
      if (!absl::IsNotFound(config.status())) return config;
    }
    if (const std::string home = Get(env, "HOME"); !home.empty()) paths = {home + "/.kube/config"};
    origin = "the default place";
  }

  std::vector<KubeconfigFile> files;
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    if (!seen.insert(path).second) continue;
    absl::StatusOr<std::string> text = ReadFile(path, kMaxFile);
    // Of several files some may be missing, as for kubectl.
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    const std::filesystem::path absolute = std::filesystem::absolute(path);
    files.push_back({absolute.lexically_normal().string(), *std::move(text)});
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no kubeconfig: there is no file ", absl::StrJoin(paths, ":"), " (", origin,
                     "); name one with --kubeconfig or KUBECONFIG, or run in a pod that has a service account"));
  }
  return ParseKubeconfig(files, options);
}

}  // namespace tf::kube
