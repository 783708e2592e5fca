#include "gpu/card_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf::gpu {

absl::StatusOr<std::string> VisibleDevices(std::string_view gpu_objects) {
  std::string devices;
  const std::string text(gpu_objects);
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    // GPU-… of cards, MIG-… of their instances.
    const size_t dash = name.find('-');
    if (dash == std::string::npos || dash == 0 || dash + 1 == name.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected names of GPU objects, such as gpu-6d0e0c0b-…, found \"", text, "\""));
    }
    absl::StrAppend(&devices, devices.empty() ? "" : ",", absl::AsciiStrToUpper(name.substr(0, dash)),
                    name.substr(dash));
  }
  return devices;
}

}  // namespace tf::gpu
