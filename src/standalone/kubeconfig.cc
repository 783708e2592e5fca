#include "standalone/kubeconfig.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tf::standalone {

std::string KubeconfigText(const std::string& name, const std::string& server, const std::string& ca_certificate,
                           const http::KeyPair& client) {
  return absl::StrCat("apiVersion: v1\nkind: Config\ncurrent-context: ", name,  //
                      "\nclusters:\n- name: ", name,                            //
                      "\n  cluster:\n    server: ", server,                     //
                      "\n    certificate-authority-data: ", absl::Base64Escape(ca_certificate),
                      "\ncontexts:\n- name: ", name, "\n  context:\n    cluster: ", name, "\n    user: ", name,
                      "\nusers:\n- name: ", name,
                      "\n  user:\n    client-certificate-data: ", absl::Base64Escape(client.certificate),
                      "\n    client-key-data: ", absl::Base64Escape(client.key), "\n");
}

std::string ExportLine(const std::string& kubeconfig) {
  const bool plain = std::all_of(kubeconfig.begin(), kubeconfig.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/._-+", c);
  });
  if (plain) return absl::StrCat("export KUBECONFIG=", kubeconfig);
  return absl::StrCat("export KUBECONFIG='", absl::StrReplaceAll(kubeconfig, {{"'", "'\\''"}}), "'");
}

}  // namespace tf::standalone
