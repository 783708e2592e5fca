#include "operator/license_preflight.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "api/names.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;
using Kind = Reference::Kind;

constexpr char kText[] = "TF_LICENSE";
constexpr char kSignature[] = "TF_LICENSE_SIGN";

const JsonArray* Array(const Json& value, std::string_view path) {
  const Json* found = kube::Field(value, path);
  return found == nullptr ? nullptr : found->if_array();
}

const Json* WorkerContainer(const Json& pod_template) {
  const JsonArray* containers = Array(pod_template, "template.spec.containers");
  if (containers == nullptr) return nullptr;
  for (const Json& container : *containers) {
    if (kube::Text(container, "name") == api::kWorkerContainer) return &container;
  }
  return containers->size() == 1 ? &containers->front() : nullptr;
}

struct Source {
  const char* path;
  Kind kind;
};
constexpr Source kOfEnv[] = {{"valueFrom.secretKeyRef", Kind::kSecret},
                             {"valueFrom.configMapKeyRef", Kind::kConfigMap}};
constexpr Source kOfEnvFrom[] = {{"secretRef", Kind::kSecret}, {"configMapRef", Kind::kConfigMap}};

absl::Status Missing(Kind kind, const std::string& ns, const Json& reference, const std::string& key) {
  return absl::UnavailableError(absl::StrCat(KindName(kind), " ", ns, "/", std::string(kube::Text(reference, "name")),
                                             key.empty() ? " is missing" : absl::StrCat(" has no key '", key, "'"),
                                             ": the worker template references it"));
}

std::optional<std::string>* Wanted(FoundLicense& found, std::string_view name) {
  if (name == kText) return &found.text;
  if (name == kSignature) return &found.signature;
  return nullptr;
}

}  // namespace

absl::StatusOr<FoundLicense> FindLicense(const Json& pod_template, const std::string& ns, const ValuesReader& read) {
  FoundLicense found;
  const Json* container = WorkerContainer(pod_template);
  if (container == nullptr) return found;
  if (const JsonArray* sources = Array(*container, "envFrom")) {
    for (const Json& entry : *sources) {
      const std::string prefix(kube::Text(entry, "prefix"));
      for (const Source& source : kOfEnvFrom) {
        const Json* reference = kube::Field(entry, source.path);
        if (reference == nullptr) continue;
        const auto values = read(source.kind, std::string(kube::Text(*reference, "name")));
        if (!values.ok()) return values.status();
        if (!values->has_value()) {
          if (kube::Flag(*reference, "optional")) continue;
          return Missing(source.kind, ns, *reference, "");
        }
        for (const auto& [key, value] : **values) {
          if (std::optional<std::string>* wanted = Wanted(found, prefix + key)) *wanted = value;
        }
      }
    }
  }
  const JsonArray* variables = Array(*container, "env");
  if (variables == nullptr) return found;
  for (const Json& variable : *variables) {
    std::optional<std::string>* wanted = Wanted(found, kube::Text(variable, "name"));
    if (wanted == nullptr) continue;
    *wanted = std::string(kube::Text(variable, "value"));
    for (const Source& source : kOfEnv) {
      const Json* reference = kube::Field(variable, source.path);
      if (reference == nullptr) continue;
      const auto values = read(source.kind, std::string(kube::Text(*reference, "name")));
      if (!values.ok()) return values.status();
      const std::string key(kube::Text(*reference, "key"));
      if (values->has_value() && (*values)->contains(key)) {
        *wanted = (*values)->at(key);
      } else if (!kube::Flag(*reference, "optional")) {
        return Missing(source.kind, ns, *reference, values->has_value() ? key : "");
      }
    }
  }
  return found;
}

bool MentionsLicense(const Json& pod_template) {
  const Json* container = WorkerContainer(pod_template);
  if (container == nullptr) return false;
  // Whatever envFrom brings may be a licence: then only reading tells, and nobody asks this without having read.
  if (const JsonArray* variables = Array(*container, "env")) {
    for (const Json& variable : *variables) {
      FoundLicense found;
      if (Wanted(found, kube::Text(variable, "name")) != nullptr) return true;
    }
  }
  return false;
}

LicenseCheck CheckLicense(const FoundLicense& found, absl::Time now, const std::vector<std::string>& gpus,
                          const license::Keyring& keyring, absl::Time build_time) {
  LicenseCheck check;
  const license::OrRefusal<license::SignedText> signed_text =
      license::Parse(found.text.value_or(""), found.signature.value_or(""));
  if (!signed_text.ok()) {
    check.refusal = signed_text.refusal();
    return check;
  }
  const license::OrRefusal<license::License> license = license::Verify(*signed_text, keyring);
  if (!license.ok()) {
    check.refusal = license.refusal();
    return check;
  }
  check.license = *license;
  const license::OrRefusal<license::Verdict> verdict =
      license::EvaluateDates(*license, now, license::KnownTimes{build_time, std::nullopt});
  if (!verdict.ok()) {
    check.refusal = verdict.refusal();
    return check;
  }
  if (!gpus.empty()) check.refusal = license::EvaluateGpus(*license, gpus);
  if (!check.refusal) check.verdict = *verdict;
  return check;
}

}  // namespace tf::operators
