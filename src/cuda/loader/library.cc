#include "cuda/loader/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::cuda {
namespace {

constexpr char kDriverName[] = "libcuda.so.1";
constexpr char kNvmlName[] = "libnvidia-ml.so.1";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `path` itself, or the library `name` in it when it is a folder.
std::string InFolder(const std::string& path, const char* name) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / name).string() : path;
}

absl::StatusOr<void*> Open(const std::string& path, const char* what, const char* variable, const char* first_symbol) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return absl::FailedPreconditionError(absl::StrCat(what,
                                                      " cannot be loaded: ", reason == nullptr ? path.c_str() : reason,
                                                      ". Install a driver, or set ", variable, " to the library"));
  }
  if (dlsym(library, first_symbol) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not ", what, ": it has no ", first_symbol, ". Set ",
                                                      variable, " to the right library"));
  }
  return library;
}

std::string NvmlPath(const std::string& path) {
  if (!path.empty()) return InFolder(path, kNvmlName);
  if (const std::string chosen = Variable("TF_NVML_LIB_PATH"); !chosen.empty()) return InFolder(chosen, kNvmlName);
  // The cards of a chosen driver are not those of the system's NVML.
  if (const std::string driver = Variable("TF_CUDA_LIB_PATH"); !driver.empty()) {
    const std::string beside =
        std::filesystem::path(InFolder(driver, kDriverName)).replace_filename(kNvmlName).string();
    if (access(beside.c_str(), R_OK) == 0) return beside;
  }
  return kNvmlName;
}

}  // namespace

absl::StatusOr<DriverLibrary> LoadDriver(const std::string& path) {
  DriverLibrary driver;
  driver.path = InFolder(!path.empty() ? path : Variable("TF_CUDA_LIB_PATH"), kDriverName);
  if (driver.path.empty()) driver.path = kDriverName;
  absl::StatusOr<void*> library = Open(driver.path, "the CUDA driver", "TF_CUDA_LIB_PATH", "cuInit");
  if (!library.ok()) return library.status();
  driver.functions.Load([&](const char* symbol) { return dlsym(*library, symbol); });
  return driver;
}

absl::StatusOr<NvmlLibrary> LoadNvml(const std::string& path) {
  NvmlLibrary nvml;
  nvml.path = NvmlPath(path);
  absl::StatusOr<void*> library = Open(nvml.path, "NVML", "TF_NVML_LIB_PATH", "nvmlInit_v2");
  if (!library.ok()) return library.status();
  nvml.functions.Load([&](const char* symbol) { return dlsym(*library, symbol); });
  return nvml;
}

}  // namespace tf::cuda
