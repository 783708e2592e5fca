#include "remoting/client/connect.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda/wire_ops.h"
#include "remoting/client/fetch_connection.h"
#include "remoting/version.h"

namespace tf::remoting {

namespace {

constexpr char kInfo[] = "TENSOR_FUSION_OPERATOR_CONNECTION_INFO";
constexpr char kUrl[] = "TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL";
constexpr char kTokenFile[] = "/var/run/secrets/tensor-fusion.ai/token";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<link::Connection>> ConnectFromEnvironment(std::string_view purpose) {
  const char* variable = kInfo;
  std::string info = Variable(kInfo);
  if (const std::string url = Variable(kUrl); info.empty() && !url.empty()) {
    variable = kUrl;
    FetchOptions fetch{.token_file = Variable("TF_CONNECTION_TOKEN_FILE")};
    if (fetch.token_file.empty()) fetch.token_file = kTokenFile;
    absl::StatusOr<std::string> fetched = FetchConnection(url, fetch);
    if (!fetched.ok()) {
      return absl::Status(fetched.status().code(), absl::StrCat(kUrl, ": ", fetched.status().message()));
    }
    info = *std::move(fetched);
  }
  if (info.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no worker is named: expected ", kInfo,
                                                      "=native+<ip>+<port>+<version> or shmem+<name>+<MiB>+<n>; "
                                                      "`tfctl run -- PROGRAM` sets it"));
  }
  absl::StatusOr<link::ConnectionString> where = link::ParseConnectionString(info);
  if (!where.ok()) {
    return absl::Status(where.status().code(), absl::StrCat(variable, ": ", where.status().message()));
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
