// A kubeconfig file: how kubectl and every other client reach the cluster, and as whom.
#pragma once

#include <string>

#include "http/certificates.h"

namespace tf::standalone {

// The certificates are in the text itself, so that the file can be copied. `name`: of cluster, user and context.
std::string KubeconfigText(const std::string& name, const std::string& server, const std::string& ca_certificate,
                           const http::KeyPair& client);

// What a person types into a shell to use the file: "export KUBECONFIG=…", quoted where it has to be.
std::string ExportLine(const std::string& kubeconfig);

}  // namespace tf::standalone
