#include "remoting/client/connect.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda/wire_ops.h"
#include "remoting/version.h"

namespace tf::remoting {

absl::StatusOr<std::unique_ptr<link::Connection>> ConnectFromEnvironment(std::string_view purpose) {
  const char* info = std::getenv("TENSOR_FUSION_OPERATOR_CONNECTION_INFO");
  if (info == nullptr || *info == '\0') {
    if (std::getenv("TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL") != nullptr) {
      return absl::UnimplementedError(
          "fetching the connection from TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL is not supported by this version; "
          "set "
          "TENSOR_FUSION_OPERATOR_CONNECTION_INFO to the worker's connection string");
    }
    return absl::FailedPreconditionError(
        "no worker is named: expected TENSOR_FUSION_OPERATOR_CONNECTION_INFO=native+<ip>+<port>+<version> or "
        "shmem+<name>+<MiB>+<n>; `tfctl run -- PROGRAM` sets it");
  }
  absl::StatusOr<link::ConnectionString> where = link::ParseConnectionString(info);
  if (!where.ok()) {
    return absl::Status(where.status().code(),
                        absl::StrCat("TENSOR_FUSION_OPERATOR_CONNECTION_INFO: ", where.status().message()));
  }
  link::ConnectOptions options;
  options.protocol_hash = cuda::kProtocolHash;
  options.program_version = kProgramVersion;
  options.text = std::string(purpose);
  if (const char* file = std::getenv("TF_LINK_KEY_FILE"); file != nullptr && *file != '\0') {
    absl::StatusOr<link::LinkKey> key = link::ReadLinkKeyFile(file);
    if (!key.ok()) return key.status();
    options.key = *key;
  }
  const char* insecure = std::getenv("TF_LINK_INSECURE_PLAINTEXT");
  options.insecure = insecure != nullptr && std::string_view(insecure) == "1";
  if (const char* folder = std::getenv("TF_SHM_FOLDER"); folder != nullptr && *folder != '\0') options.folder = folder;
  return link::Connect(*where, options);
}

}  // namespace tf::remoting
