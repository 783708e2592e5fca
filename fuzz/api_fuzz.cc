// JSON into structs and back, on arbitrary objects of every kind; quantities, times and durations on arbitrary text.
//
// What must hold: nothing crashes; what was read and written once stays the same when read and written again; the
// canonical form of a quantity is the same amount; a refusal names a place and is one line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/core.h"
#include "api/gpu_pool.h"
#include "api/json.h"
#include "api/provider_config.h"
#include "api/quantity.h"
#include "api/tensor_fusion_cluster.h"
#include "api/values.h"
#include "api/workload.h"
#include "kube/object.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && status.message().find(": expected ") != absl::string_view::npos);
}

template <typename T>
void CheckObject(const tf::kube::Json& json) {
  const auto value = tf::api::FromJson<T>(json);
  if (!value.ok()) return CheckRefusal(value.status());
  const tf::kube::Json once = tf::api::ToJson(*value);
  const auto again = tf::api::FromJson<T>(once);
  Require(again.ok());
  Require(tf::api::ToJson(*again) == once);
}

void CheckText(std::string_view text) {
  const auto quantity = tf::api::Quantity::Parse(text);
  if (quantity.ok()) {
    const auto canonical = tf::api::Quantity::Parse(quantity->Canonical());
    Require(canonical.ok() && *canonical == *quantity && canonical->Canonical() == quantity->Canonical());
    Require(*quantity - *quantity == tf::api::Quantity());
  }
  const auto time = tf::api::Time::Parse(text);
  if (time.ok()) Require(time->IsSet() && time->Text() == text);
  const auto duration = tf::api::ParseDuration(text);
  if (duration.ok()) Require(*duration >= absl::ZeroDuration());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckText(text);
  const auto json = tf::kube::ParseJson(text);
  if (!json.ok()) return 0;
  CheckObject<tf::api::TensorFusionCluster>(*json);
  CheckObject<tf::api::GPUPool>(*json);
  CheckObject<tf::api::TensorFusionWorkload>(*json);
  CheckObject<tf::api::ProviderConfig>(*json);
  CheckObject<tf::api::Pod>(*json);
  CheckObject<tf::api::Node>(*json);
  CheckObject<tf::api::Lease>(*json);
  return 0;
}
