// tensor-fusion-hypervisor: one on each GPU node. It finds the node's cards and publishes them as GPU objects.
#include <sys/statvfs.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "cuda/loader/library.h"
#include "cuda/loader/monitor.h"
#include "hypervisor/publisher.h"
#include "kube/manager.h"

namespace {

namespace hypervisor = tf::hypervisor;

constexpr char kName[] = "tensor-fusion-hypervisor";

struct Options {
  std::string node;
  std::string pool;
  std::string vendor = "NVIDIA";
  std::string address = "127.0.0.1";
  uint16_t port = 8000;
  std::string interval = "10s";
  std::string data_dir = "/";
  std::string hardware;
  std::string kubeconfig;
};

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", kName, what.c_str());
  return 1;
}

// NVML, opened when it is first asked and again after a failure: the driver may come after us.
class Driver {
 public:
  absl::StatusOr<tf::cuda::MonitorReport> Read() {
    if (session_ == nullptr) {
      absl::StatusOr<tf::cuda::NvmlLibrary> nvml = tf::cuda::LoadNvml();
      if (!nvml.ok()) return nvml.status();
      auto session = tf::cuda::NvmlSession::Start(nvml->functions);
      if (!session.ok()) return session.status();
      session_ = *std::move(session);
    }
    auto report = session_->Read();
    if (!report.ok()) session_.reset();
    return report;
  }

 private:
  std::unique_ptr<tf::cuda::NvmlSession> session_;
};

// The machine's memory; the disk of a folder.
hypervisor::NodeFacts ReadNode(const std::string& data_dir) {
  hypervisor::NodeFacts facts;
  std::ifstream memory("/proc/meminfo");
  std::string key, unit;
  uint64_t kib = 0;
  if (memory >> key >> kib >> unit && key == "MemTotal:") facts.memory = kib * 1024;
  struct statvfs disk{};
  if (statvfs(data_dir.c_str(), &disk) == 0) facts.disk = uint64_t{disk.f_blocks} * disk.f_frsize;
  return facts;
}

// Of a PCI device; nullopt where the machine has one node, or the card is none of its.
std::optional<int32_t> NumaNode(const tf::cuda::DeviceFacts& card) {
  std::ifstream file(absl::StrFormat("/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", card.pci_domain, card.pci_bus,
                                     card.pci_device));
  int32_t node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

}  // namespace

int main(int argc, char** argv) {
  tf::InitLog(kName);
  Options options;
  CLI::App app("Publishes the cards of a GPU node as GPU objects, with health and metrics.", kName);
  app.add_option("--node", options.node, "Name of the node, which is its GPUNode's too")
      ->envname("GPU_NODE_NAME")
      ->required();
  app.add_option("--pool", options.pool, "Name of the pool that has it")
      ->envname("TENSOR_FUSION_POOL_NAME")
      ->required();
  app.add_option("--vendor", options.vendor, "Of the cards; NVIDIA: those that an NVML lists")
      ->envname("TF_HARDWARE_VENDOR")
      ->capture_default_str();
  app.add_option("--address", options.address, "Where /healthz, /readyz and /metrics are: the pod's own address")
      ->envname("POD_IP")
      ->capture_default_str();
  app.add_option("--port", options.port, "And the port; 0: a free one")
      ->envname("HYPERVISOR_PORT")
      ->capture_default_str();
  app.add_option("--interval", options.interval, "How often the driver is asked, e.g. 10s")->capture_default_str();
  app.add_option("--data-dir", options.data_dir, "Folder on the node's data disk, whose size is published")
      ->capture_default_str();
  app.add_option("--hardware", options.hardware,
                 "Cards and their TFLOPS, before those that are known: a JSON list of model, fullModelName, fp16TFlops")
      ->envname("TF_PROVIDER_HARDWARE_METADATA");
  app.add_option("--kubeconfig", options.kubeconfig,
                 "How the API server is found; without it KUBECONFIG, or the service account of the pod");
  app.footer(
      "Environment:\n"
      "  TF_NVML_LIB_PATH  the NVML to use instead of the system's; TF_CUDA_LIB_PATH: the one beside that driver\n"
      "  TF_ENABLE_LOG=1   log to standard error; TF_LOG_LEVEL: trace, debug, info, warn, error, off");
  CLI11_PARSE(app, argc, argv);

  absl::Duration interval;
  if (!absl::ParseDuration(options.interval, &interval) || interval < absl::Milliseconds(100)) {
    return Fail(absl::StrCat("--interval: expected a duration of at least 100ms, such as 10s, found \"",
                             options.interval, "\""));
  }
  if (options.vendor != "NVIDIA") {
    return Fail(absl::StrCat("UNIMPLEMENTED: cards of vendor ", options.vendor,
                             " (TF_HARDWARE_VENDOR) cannot be found; expected NVIDIA"));
  }
  absl::StatusOr<hypervisor::HardwareTable> hardware = hypervisor::HardwareTable::Parse(options.hardware);
  if (!hardware.ok()) return Fail(std::string(hardware.status().message()));

  tf::kube::ManagerOptions manager_options{.name = kName};
  manager_options.config.kubeconfig = options.kubeconfig;
  manager_options.health = {.address = options.address, .port = options.port};
  const auto manager = tf::kube::Manager::Make(manager_options);
  if (!manager.ok()) return Fail(std::string(manager.status().message()));
  Driver driver;
  const hypervisor::Publisher publisher(
      **manager, {.place = {.node = options.node, .pool = options.pool, .vendor = options.vendor},
                  .hardware = *std::move(hardware),
                  .interval = interval,
                  .read_driver = [&driver] { return driver.Read(); },
                  .read_node = [&options] { return ReadNode(options.data_dir); },
                  .numa_node = NumaNode});
  return (*manager)->Run();
}
