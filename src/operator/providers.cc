#include "operator/providers.h"

#include <utility>

#include "api/typed.h"
#include "operator/caches.h"
#include "spdlog/spdlog.h"

namespace tf::operators {

kube::Informer& Providers(kube::Manager& manager) {
  return manager.Cache(api::ProviderConfig::kResource, {.keep = AllOfIt()});
}

std::optional<api::ProviderConfig> ProviderOf(const kube::Informer& providers, const std::string& vendor) {
  kube::ObjectPtr found;
  for (const kube::ObjectPtr& object : providers.All()) {
    if (kube::Text(*object, "spec.vendor") != vendor || kube::IsBeingDeleted(*object)) continue;
    if (found == nullptr || kube::Name(*object) < kube::Name(*found)) found = object;
  }
  if (found == nullptr) return std::nullopt;
  absl::StatusOr<api::ProviderConfig> provider = api::FromObject<api::ProviderConfig>(*found);
  if (!provider.ok()) {
    spdlog::warn("pods are made without it: {}", std::string(provider.status().message()));
    return std::nullopt;
  }
  return *std::move(provider);
}

}  // namespace tf::operators
