#include "operator/provider_settings.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace tf::operators {

using api::Json;
using api::JsonArray;
using api::JsonObject;

Json HypervisorSettings(const api::ProviderConfigSpec& provider) {
  JsonObject settings;
  if (!provider.vendor.empty()) settings["vendor"] = provider.vendor;
  if (provider.hypervisor) {
    const api::ProviderHypervisor& hypervisor = *provider.hypervisor;
    if (hypervisor.privilegedHypervisor) settings["privileged"] = true;
    if (!hypervisor.ldLibraryPath.empty()) settings["ldLibraryPath"] = hypervisor.ldLibraryPath;
    JsonArray env, mounts;
    for (const api::ProviderEnvVar& variable : hypervisor.extraEnv) {
      env.push_back(JsonObject{{"name", variable.name}, {"value", variable.value}});
    }
    for (const api::ProviderHostPathMount& mount : hypervisor.hostPathMounts) {
      mounts.push_back(JsonObject{{"name", mount.name},
                                  {"hostPath", mount.hostPath},
                                  {"mountPath", mount.mountPath},
                                  {"readOnly", mount.readOnly}});
    }
    if (!env.empty()) settings["extraEnv"] = env;
    if (!mounts.empty()) settings["hostPathMounts"] = mounts;
  }
  JsonArray hardware;
  for (const api::HardwareModel& model : provider.hardwareMetadata) {
    hardware.push_back(JsonObject{
        {"model", model.model}, {"fullModelName", model.fullModelName}, {"fp16TFlops", model.fp16TFlops.Canonical()}});
  }
  if (!hardware.empty()) settings["hardware"] = hardware;
  return settings;
}

Json WorkerSettings(const api::ProviderConfigSpec& provider) {
  JsonObject settings;
  if (!provider.images.remoteWorker.empty()) settings["image"] = provider.images.remoteWorker;
  return settings;
}

}  // namespace tf::operators
