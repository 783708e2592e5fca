#include "api/core.h"

#include <algorithm>

#include "api/convert.h"

namespace tf::api {

const EnvVar* FindEnv(const Container& container, std::string_view name) {
  const auto it =
      std::find_if(container.env.begin(), container.env.end(), [&](const EnvVar& one) { return one.name == name; });
  return it == container.env.end() ? nullptr : &*it;
}

const Container* FindContainer(const std::vector<Container>& containers, std::string_view name) {
  const auto it =
      std::find_if(containers.begin(), containers.end(), [&](const Container& one) { return one.name == name; });
  return it == containers.end() ? nullptr : &*it;
}

bool IsReady(const Pod& pod) {
  return std::any_of(pod.status.conditions.begin(), pod.status.conditions.end(),
                     [](const PodCondition& one) { return one.type == "Ready" && one.status == "True"; });
}

bool IsFinished(const Pod& pod) { return pod.status.phase == "Succeeded" || pod.status.phase == "Failed"; }

bool IsReady(const Node& node) {
  return std::any_of(node.status.conditions.begin(), node.status.conditions.end(),
                     [](const NodeCondition& one) { return one.type == "Ready" && one.status == "True"; });
}

template absl::StatusOr<NodeSelector> FromJson(const Json&);
template Json ToJson(const NodeSelector&);
template absl::StatusOr<Container> FromJson(const Json&);
template Json ToJson(const Container&);
template absl::StatusOr<PodSpec> FromJson(const Json&);
template Json ToJson(const PodSpec&);
template absl::StatusOr<PodTemplateSpec> FromJson(const Json&);
template Json ToJson(const PodTemplateSpec&);
template absl::StatusOr<PodTemplate> FromJson(const Json&);
template Json ToJson(const PodTemplate&);
template absl::StatusOr<Pod> FromJson(const Json&);
template Json ToJson(const Pod&);
template absl::StatusOr<PodStatus> FromJson(const Json&);
template Json ToJson(const PodStatus&);
template absl::StatusOr<Node> FromJson(const Json&);
template Json ToJson(const Node&);
template absl::StatusOr<Secret> FromJson(const Json&);
template Json ToJson(const Secret&);
template absl::StatusOr<ConfigMap> FromJson(const Json&);
template Json ToJson(const ConfigMap&);
template absl::StatusOr<Lease> FromJson(const Json&);
template Json ToJson(const Lease&);
template absl::StatusOr<Event> FromJson(const Json&);
template Json ToJson(const Event&);
template absl::StatusOr<ControllerRevision> FromJson(const Json&);
template Json ToJson(const ControllerRevision&);

}  // namespace tf::api
