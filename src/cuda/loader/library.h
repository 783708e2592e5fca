// The CUDA driver and NVML as libraries of this machine, genuine or simulated, opened at run time.
//
// Paths: the argument when it is not empty; else TF_CUDA_LIB_PATH (driver) and TF_NVML_LIB_PATH (NVML); else, for NVML,
// the one beside the driver that TF_CUDA_LIB_PATH names; else the system's. A path may be the library or its folder.
// Errors are FAILED_PRECONDITION with one line: what was tried, why not, what to set. A library stays loaded until the
// process ends. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cuda/driver_functions.h"
#include "cuda/nvml_functions.h"

namespace tf::cuda {

struct DriverLibrary {
  std::string path;  // as it was opened
  DriverFunctions functions;
};
absl::StatusOr<DriverLibrary> LoadDriver(const std::string& path = "");

// Loaded, not initialized.
struct NvmlLibrary {
  std::string path;
  NvmlFunctions functions;
};
absl::StatusOr<NvmlLibrary> LoadNvml(const std::string& path = "");

}  // namespace tf::cuda
