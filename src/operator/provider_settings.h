// What of a ProviderConfig reaches pods: for the renderers, and for the digests that decide whether a change of it
// restarts anything. Pure.
#pragma once

#include "api/provider_config.h"

namespace tf::operators {

// Of a hypervisor's pod: {"vendor", "privileged", "ldLibraryPath", "extraEnv", "hostPathMounts", "hardware"}; hardware
// is a list of model, fullModelName and fp16TFlops. Blank members are left out, so that a field that a provider does
// not use changes nothing. Prices, partitions, images and what the device plugin needs are not in it.
api::Json HypervisorSettings(const api::ProviderConfigSpec& provider);

// Of a worker's pod: {"image"}, the one that is used where neither pool nor template nor workload names one.
api::Json WorkerSettings(const api::ProviderConfigSpec& provider);

}  // namespace tf::operators
