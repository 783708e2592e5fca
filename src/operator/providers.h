// The ProviderConfig of a vendor.
#pragma once

#include <optional>
#include <string>

#include "api/provider_config.h"
#include "kube/manager.h"

namespace tf::operators {

kube::Informer& Providers(kube::Manager& manager);

// The first by name, where there are several. nullopt: none, or it cannot be read (which is logged).
std::optional<api::ProviderConfig> ProviderOf(const kube::Informer& providers, const std::string& vendor);

}  // namespace tf::operators
