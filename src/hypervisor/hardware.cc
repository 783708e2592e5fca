#include "hypervisor/hardware.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "absl/strings/str_cat.h"
#include "kube/object.h"

namespace tf::hypervisor {
namespace {

struct Known {
  std::string_view name;
  int64_t millitflops;
};

constexpr Known kCards[] = {
    {"NVIDIA B200", 2'250'000},
    {"NVIDIA H200", 989'000},
    {"NVIDIA H200 NVL", 835'000},
    {"NVIDIA H100 80GB HBM3", 989'000},
    {"NVIDIA H100 PCIe", 756'000},
    {"NVIDIA H100 NVL", 835'000},
    {"NVIDIA H800", 989'000},
    {"NVIDIA H20", 148'000},
    {"NVIDIA A100-SXM4-40GB", 312'000},
    {"NVIDIA A100-SXM4-80GB", 312'000},
    {"NVIDIA A100-PCIE-40GB", 312'000},
    {"NVIDIA A100 80GB PCIe", 312'000},
    {"NVIDIA A800-SXM4-80GB", 312'000},
    {"NVIDIA A800 80GB PCIe", 312'000},
    {"NVIDIA A40", 149'700},
    {"NVIDIA A30", 165'000},
    {"NVIDIA A10", 125'000},
    {"NVIDIA A2", 18'000},
    {"NVIDIA RTX A6000", 154'800},
    {"NVIDIA RTX 6000 Ada Generation", 364'000},
    {"NVIDIA L40S", 362'000},
    {"NVIDIA L40", 181'000},
    {"NVIDIA L20", 119'500},
    {"NVIDIA L4", 121'000},
    {"Tesla V100-SXM2-16GB", 125'000},
    {"Tesla V100-SXM2-32GB", 125'000},
    {"Tesla V100-PCIE-16GB", 112'000},
    {"Tesla V100-PCIE-32GB", 112'000},
    {"Tesla T4", 65'000},
    {"NVIDIA GeForce RTX 5090", 209'500},
    {"NVIDIA GeForce RTX 4090", 165'000},
    {"NVIDIA GeForce RTX 3090", 71'000},
};

}  // namespace

absl::StatusOr<HardwareTable> HardwareTable::Parse(std::string_view provider) {
  HardwareTable table;
  if (provider.empty()) return table;
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TF_PROVIDER_HARDWARE_METADATA: expected [{\"model\", \"fullModelName\", \"fp16TFlops\"}, ...], ", what));
  };
  const absl::StatusOr<kube::Json> json = kube::ParseJson(provider);
  if (!json.ok()) return wrong(std::string(json.status().message()));
  if (!json->is_array()) return wrong("found no array");
  for (const kube::Json& one : json->get_array()) {
    Entry entry{std::string(kube::Text(one, "model")), std::string(kube::Text(one, "fullModelName")), {}};
    absl::StatusOr<api::Quantity> tflops = api::Quantity::Parse(kube::Text(one, "fp16TFlops"));
    if (!tflops.ok()) return wrong(absl::StrCat("of \"", entry.model, "\" ", std::string(tflops.status().message())));
    entry.tflops = *tflops;
    table.provider_.push_back(std::move(entry));
  }
  return table;
}

Hardware HardwareTable::Of(const std::string& name) const {
  for (const Entry& entry : provider_) {
    if (entry.full_name == name || entry.model == name) {
      return {entry.model.empty() ? name : entry.model, entry.tflops, true};
    }
  }
  for (const Known& card : kCards) {
    if (card.name == name) return {name, api::Quantity::FromMilli(card.millitflops), true};
  }
  return {name, {}, false};
}

}  // namespace tf::hypervisor
