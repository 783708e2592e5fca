// How fast a card is, by the name that its driver gives it: FP16 TFLOPS on tensor cores, dense, as in its data sheet.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/quantity.h"

namespace tf::hypervisor {

struct Hardware {
  std::string model = {};  // a short name, "A100_SXM_80G"; the full one where there is none
  api::Quantity tflops = {};
  bool known = false;
};

class HardwareTable {
 public:
  // The cards that this program knows.
  HardwareTable() = default;
  // And before them those of a provider (TF_PROVIDER_HARDWARE_METADATA): [{"model", "fullModelName", "fp16TFlops"}].
  // InvalidArgument says where it is wrong. "": none.
  static absl::StatusOr<HardwareTable> Parse(std::string_view provider);

  // `name` as NVML prints it.
  Hardware Of(const std::string& name) const;

 private:
  struct Entry {
    std::string model, full_name;
    api::Quantity tflops;
  };
  std::vector<Entry> provider_ = {};
};

}  // namespace tf::hypervisor
