// What the API server would not take from a pod template, or would drop from it in silence. A pool's podTemplate is a
// raw object there: it is decoded leniently, so `vaule:` is lost, and `value: 1` fails only when the pod is made. Pure.
#pragma once

#include <string>
#include <vector>

#include "kube/object.h"

namespace tf::operators {

struct Findings {
  std::vector<std::string> errors = {};    // refused
  std::vector<std::string> warnings = {};  // let pass, and said
};

// core/v1 PodTemplate ({template: {metadata, spec}}), PodTemplateSpec, Pod, Container. `field` is where it stands.
enum class TemplateShape { kPodTemplate, kPodTemplateSpec, kPod, kContainer };
void CheckPodTemplate(const kube::Json& value, TemplateShape shape, const std::string& field, Findings& findings);

}  // namespace tf::operators
