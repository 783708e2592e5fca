// The certificates and keys of a cluster of one machine, and the files in which its parts find them.
//
// Authorities and the key for service-account tokens are made once and kept: certificates and tokens that people hold
// stay good over restarts. Everything else is made anew at each start. Three authorities, because each is asked another
// question: `cluster` vouches for users of the API and for its servers; `node_client` vouches for nobody but the API
// server when it calls a node (whoever the cluster's signer certifies may not exec into pods past the API server);
// `front_proxy` for nobody but the API server when it calls an extension API server.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/certificates.h"

namespace tf::standalone {

// What the files in the folder are called.
namespace credentials {
inline constexpr char kClusterCa[] = "cluster-ca.crt";
inline constexpr char kClusterCaKey[] = "cluster-ca.key";
inline constexpr char kNodeClientCa[] = "node-client-ca.crt";
inline constexpr char kFrontProxyCa[] = "front-proxy-ca.crt";
inline constexpr char kServiceAccountKey[] = "service-account.key";
inline constexpr char kServiceAccountPublicKey[] = "service-account.pub";
inline constexpr char kApiServer[] = "api-server";  // these are pairs: NAME.crt and NAME.key
inline constexpr char kNodeClient[] = "node-client";
inline constexpr char kFrontProxy[] = "front-proxy-client";
inline constexpr char kControllerManager[] = "controller-manager";
inline constexpr char kScheduler[] = "scheduler";
inline constexpr char kProcessNode[] = "process-node";
}  // namespace credentials

// Who they are to the API server.
inline constexpr char kProcessNodeUser[] = "tensor-fusion:process-node";

struct Credentials {
  std::string ca_certificate = {};
  http::KeyPair admin = {};  // of group system:masters
  http::KeyPair controller_manager = {};
  http::KeyPair scheduler = {};
  http::KeyPair process_node = {};
};

// Makes what is missing in `folder` and writes what is made anew. Errors name the file.
absl::StatusOr<Credentials> PrepareCredentials(const std::string& folder, const std::string& service_address,
                                               absl::Time now);

}  // namespace tf::standalone
