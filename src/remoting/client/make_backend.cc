// libcuda.so.1 of an application: the driver front over a worker that the environment names.
#include "cuda/driver/make_backend.h"

#include "remoting/client/connect.h"
#include "remoting/client/remote_backend.h"

namespace tf::cuda::driver {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  absl::StatusOr<std::unique_ptr<link::Connection>> connection = remoting::ConnectFromEnvironment("cuda");
  if (!connection.ok()) return connection.status();
  return std::make_unique<remoting::RemoteBackend>(*std::move(connection));
}

}  // namespace tf::cuda::driver
