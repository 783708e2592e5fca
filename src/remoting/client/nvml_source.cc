// libnvidia-ml.so.1 of an application: NVML's front over the cards of a worker that the environment names.
#include "absl/strings/str_cat.h"
#include "cuda/nvml/exports.h"
#include "cuda/nvml/source.h"
#include "cuda/wire_client.h"
#include "remoting/client/connect.h"
#include "remoting/client/port.h"

namespace tf::remoting {

namespace {

// A monitor runs nothing, so nothing is told to it.
class NoEvents : public cuda::WireEvents {
  void HostFunction(uint64_t, int32_t) override {}
  void Output(uint64_t, std::string_view) override {}
  void Fetch(uint64_t, uint64_t, uint64_t) override {}
  void Store(uint64_t, uint64_t, std::span<const std::byte>) override {}
};

class RemoteSource : public cuda::nvml::NvmlSource {
 public:
  explicit RemoteSource(std::unique_ptr<link::Connection> connection) : port_(std::move(connection), &events_) {}

  absl::StatusOr<cuda::MonitorReport> Read() override {
    cuda::MonitorReport report;
    CUresult result = wire_.Monitor(&report);
    if (result == CUDA_ERROR_DEVICE_UNAVAILABLE) return absl::UnavailableError("the worker is lost");
    if (result != CUDA_SUCCESS) {
      return absl::UnimplementedError(absl::StrCat("the worker cannot monitor its cards (CUDA error ", result, ")"));
    }
    return report;
  }

 private:
  NoEvents events_;
  Port port_;
  cuda::WireClient<Port> wire_{&port_};
};

}  // namespace

}  // namespace tf::remoting

namespace tf::cuda::nvml {

absl::StatusOr<std::unique_ptr<NvmlSource>> MakeSource() {
  absl::StatusOr<std::unique_ptr<link::Connection>> connection = remoting::ConnectFromEnvironment("nvml");
  if (!connection.ok()) return connection.status();
  return std::make_unique<remoting::RemoteSource>(*std::move(connection));
}

}  // namespace tf::cuda::nvml
