#include "remoting/worker/monitor.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tf::remoting {

std::string FormatUuid(const std::string& bytes) {
  std::string hex = absl::BytesToHexString(bytes);
  hex.resize(32, '0');
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

CUresult Monitor::Read(cuda::MonitorReport* report) {
  if (session_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(lock_);
  absl::StatusOr<cuda::MonitorReport> all = session_->Read();
  if (!all.ok()) return CUDA_ERROR_OPERATING_SYSTEM;
  report->driver_version = all->driver_version;
  report->cuda_version = all->cuda_version;
  for (size_t i = 0; i < all->devices.size(); ++i) {
    auto mine = std::find_if(snapshot_.devices.begin(), snapshot_.devices.end(),
                             [&](const cuda::DeviceFacts& device) { return device.uuid == all->devices[i].uuid; });
    if (mine == snapshot_.devices.end()) continue;
    int card = static_cast<int>(mine - snapshot_.devices.begin());
    cuda::DeviceFacts facts = all->devices[i];
    cuda::DeviceReport state = all->reports[i];
    if (books_->limit()) {
      facts.total_memory = mine->total_memory;
      state.memory_total = mine->total_memory;
      state.memory_used = std::min(books_->used(card), state.memory_total);
    }
    std::erase_if(state.processes,
                  [](const cuda::ProcessFacts& process) { return process.pid != static_cast<uint32_t>(getpid()); });
    report->devices.push_back(std::move(facts));
    report->reports.push_back(std::move(state));
  }
  return CUDA_SUCCESS;
}

BusyCounter::BusyCounter(const cuda::NvmlSession* session, const cuda::Snapshot& snapshot) {
  if (session == nullptr) return;
  for (const cuda::DeviceFacts& device : snapshot.devices) {
    absl::StatusOr<cuda::BusyClock> clock = cuda::BusyClock::Make(*session, device.uuid, getpid());
    if (clock.ok()) clocks_.push_back(*std::move(clock));
  }
}

absl::Duration BusyCounter::Read() {
  std::lock_guard lock(lock_);
  absl::Duration sum;
  for (cuda::BusyClock& clock : clocks_) sum += absl::Nanoseconds(clock.Nanoseconds());
  return sum;
}

}  // namespace tf::remoting
