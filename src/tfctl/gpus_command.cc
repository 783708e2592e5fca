// tfctl gpus: what this machine offers. The genuine driver's NVML if there is one, else the simulated cards.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cuda/loader/library.h"
#include "cuda/loader/monitor.h"
#include "tfctl/commands.h"
#include "tfctl/gpus.h"

namespace tf::tfctl {
namespace {

absl::StatusOr<cuda::MonitorReport> ReadNvml(const std::string& path) {
  absl::StatusOr<cuda::NvmlLibrary> library = cuda::LoadNvml(path);
  if (!library.ok()) return library.status();
  absl::StatusOr<std::unique_ptr<cuda::NvmlSession>> session = cuda::NvmlSession::Start(library->functions);
  if (!session.ok()) return session.status();
  return (*session)->Read();
}

// The simulated cards lie beside this program: bin/tfctl, lib/sim.
std::string SimulatedNvml() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return (program.parent_path().parent_path() / "lib" / "sim" / "libnvidia-ml.so.1").string();
}

int ListGpus(const std::string& simulated_cards, bool json) {
  absl::StatusOr<cuda::MonitorReport> report = absl::NotFoundError("");
  bool simulated = false;
  if (simulated_cards.empty()) report = ReadNvml("");
  if (!report.ok()) {
    simulated = true;
    if (!simulated_cards.empty()) setenv("TF_SIM_GPUS", simulated_cards.c_str(), 1);
    const absl::Status genuine = report.status();
    report = ReadNvml(SimulatedNvml());
    if (!report.ok()) {
      if (!genuine.message().empty()) PrintError("no driver: " + std::string(genuine.message()));
      PrintError("no simulated cards: " + std::string(report.status().message()));
      return 1;
    }
  }
  const std::string text = json ? GpuJson(*report, simulated) : GpuTable(*report, simulated);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

void AddGpusCommand(CLI::App& app, int& exit_status) {
  struct Options {
    std::string simulated_cards;
    std::string output = "table";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("gpus", "The GPUs of this machine: the driver's if there is one, else simulated cards");
  command->add_option("--sim", options->simulated_cards, "Show these simulated cards, such as A100-80G:2,T4:1");
  command->add_option("-o,--output", options->output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command->callback(
      [options, &exit_status] { exit_status = ListGpus(options->simulated_cards, options->output == "json"); });
}

}  // namespace tf::tfctl
