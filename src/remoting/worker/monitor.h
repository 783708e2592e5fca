// What a worker's clients see of its cards through NVML: the worker's own cards, with its limit as their memory, and of
// the processes only the worker itself. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "cuda/backend.h"
#include "cuda/loader/monitor.h"
#include "remoting/worker/books.h"

namespace tf::remoting {

class Monitor {
 public:
  // session, books: outlive the monitor; session may be null (a machine without NVML): then nothing can be read.
  Monitor(const cuda::NvmlSession* session, const cuda::Snapshot& snapshot, const MemoryBooks* books)
      : session_(session), snapshot_(snapshot), books_(books) {}

  CUresult Read(cuda::MonitorReport* report);

 private:
  const cuda::NvmlSession* const session_;
  const cuda::Snapshot snapshot_;
  const MemoryBooks* const books_;
  std::mutex lock_;
};

// How long the worker's cards have been busy for this process, in all.
class BusyCounter {
 public:
  BusyCounter(const cuda::NvmlSession* session, const cuda::Snapshot& snapshot);
  absl::Duration Read();

 private:
  std::mutex lock_;
  std::vector<cuda::BusyClock> clocks_;
};

// The 16 bytes of a UUID as NVML prints them.
std::string FormatUuid(const std::string& bytes);

}  // namespace tf::remoting
