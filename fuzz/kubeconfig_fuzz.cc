// Kubeconfigs: two files, with a NUL between them.
//
// What must hold: nothing crashes; what is accepted has a server; what is refused says in which file.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kube/config.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  std::vector<tf::kube::KubeconfigFile> files = {{"/one/config", std::string(input.substr(0, end))}};
  if (end != input.npos) files.push_back({"/two/config", std::string(input.substr(end + 1))});
  const auto config = tf::kube::ParseKubeconfig(files, {.env = {{}}});
  if (config.ok()) {
    Require(config->server.rfind("http", 0) == 0 && !config->ns.empty());
    Require((config->certificate_pem.empty() && config->certificate_file.empty()) ==
            (config->key_pem.empty() && config->key_file.empty()));
  } else {
    Require(config.status().code() == absl::StatusCode::kInvalidArgument);
    Require(config.status().message().find("config") != absl::string_view::npos);
  }
  return 0;
}
