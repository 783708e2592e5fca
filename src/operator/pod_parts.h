// What the renderers of pods share. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/core.h"
#include "api/workload.h"

namespace tf::operators {

api::EnvVar Env(std::string name, std::string value);
api::EnvVar EnvFromField(std::string name, std::string field_path);

// Variables of ours, before those that are there, so that these can refer to them. Add: where the container says
// something of that name, it stays. Set: ours takes its place.
void AddEnv(api::Container& container, const std::vector<api::EnvVar>& variables);
void SetEnv(api::Container& container, const std::vector<api::EnvVar>& variables);
// Of several of one name the last stays: the one that a container would see.
void DropRepeatedEnv(api::Container& container);

void AddToleration(api::PodSpec& spec, api::Toleration toleration);

// A podTemplate of a pool, {template: {metadata, spec}}. `field` is where it stands, for messages.
absl::StatusOr<api::PodTemplateSpec> ReadPodTemplate(const api::Json& pod_template, std::string_view field);

// A probe of a TCP port or of an HTTP path on a named port.
api::Probe TcpProbe(std::string port);
api::Probe HttpProbe(std::string path, std::string port);

// What a request says of cards, as annotations: of application pods, and of workers' pods for their placement.
void WriteRequest(const api::WorkloadProfileSpec& spec, std::map<std::string, std::string>& annotations);

}  // namespace tf::operators
