#include "api/provider_config.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<ProviderConfig> FromJson(const Json&);
template Json ToJson(const ProviderConfig&);
template absl::StatusOr<ProviderConfigSpec> FromJson(const Json&);
template Json ToJson(const ProviderConfigSpec&);

}  // namespace tf::api
