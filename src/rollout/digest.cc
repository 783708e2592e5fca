#include "rollout/digest.h"

#include <openssl/sha.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "api/quantity.h"
#include "base/encoding.h"

namespace tf::rollout {
namespace {

namespace json = boost::json;

// ---- Parts of an object -----------------------------------------------------------------------------------------

json::object* ObjectAt(json::object& parent, const char* name) {
  json::value* value = parent.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

json::array* ArrayAt(json::object& parent, const char* name) {
  json::value* value = parent.if_contains(name);
  return value == nullptr ? nullptr : value->if_array();
}

template <typename Change>
void ForEachObject(json::object& parent, const char* list, Change change) {
  json::array* array = ArrayAt(parent, list);
  if (array == nullptr) return;
  for (json::value& element : *array) {
    if (json::object* object = element.if_object()) change(*object);
  }
}

void DropIf(json::object& object, const char* name, const json::value& is) {
  const json::value* found = object.if_contains(name);
  if (found != nullptr && *found == is) object.erase(name);
}

void DropEmpty(json::object& object, const char* name) { DropIf(object, name, json::object()); }

// Null members and empty lists say nothing in a pod.
void DropNothings(json::value& value) {
  if (json::array* array = value.if_array()) {
    for (json::value& element : *array) DropNothings(element);
  } else if (json::object* object = value.if_object()) {
    for (auto member = object->begin(); member != object->end();) {
      DropNothings(member->value());
      const json::array* list = member->value().if_array();
      if (member->value().is_null() || (list != nullptr && list->empty())) {
        member = object->erase(member);
      } else {
        ++member;
      }
    }
  }
}

void SortList(json::object& parent, const char* name) {
  json::array* array = ArrayAt(parent, name);
  if (array == nullptr) return;
  std::vector<std::pair<std::string, json::value>> elements;
  for (json::value& element : *array) elements.emplace_back(CanonicalText(element), element);
  std::stable_sort(elements.begin(), elements.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < elements.size(); ++i) (*array)[i] = std::move(elements[i].second);
}

// ---- Amounts ----------------------------------------------------------------------------------------------------

void LevelAmount(json::value& value) {
  std::string text;
  if (const json::string* string = value.if_string()) {
    text.assign(string->data(), string->size());
  } else if (value.is_number()) {
    text = json::serialize(value);
  } else {
    return;
  }
  const absl::StatusOr<api::Quantity> amount = api::Quantity::Parse(text);
  if (!amount.ok()) return;
  // One form for 1Gi and 1073741824. At the bounds of what an amount can be the sum would not be exact: as it is.
  const api::Quantity one(1);
  const api::Quantity decimal = one + *amount - one;
  if (decimal == *amount) value = decimal.Canonical();
}

void LevelAmounts(json::object& parent, const char* name) {
  json::object* amounts = ObjectAt(parent, name);
  if (amounts == nullptr) return;
  for (auto& amount : *amounts) LevelAmount(amount.value());
}

// Any object `resources` in it, any member `sizeLimit`, at any depth: for patches, whose shape is free.
void LevelAmountsWithin(json::value& value) {
  if (json::array* array = value.if_array()) {
    for (json::value& element : *array) LevelAmountsWithin(element);
  } else if (json::object* object = value.if_object()) {
    for (auto& member : *object) {
      if (member.key() == "resources" && member.value().is_object()) {
        LevelAmounts(member.value().as_object(), "limits");
        LevelAmounts(member.value().as_object(), "requests");
      } else {
        LevelAmountsWithin(member.value());
      }
    }
  }
}

// ---- Pods -------------------------------------------------------------------------------------------------------

void LevelProbe(json::object& parent, const char* name) {
  json::object* probe = ObjectAt(parent, name);
  if (probe == nullptr) return;
  DropIf(*probe, "initialDelaySeconds", 0);
  DropIf(*probe, "timeoutSeconds", 1);
  DropIf(*probe, "periodSeconds", 10);
  DropIf(*probe, "successThreshold", 1);
  DropIf(*probe, "failureThreshold", 3);
  if (json::object* get = ObjectAt(*probe, "httpGet")) DropIf(*get, "scheme", "HTTP");
  if (json::object* grpc = ObjectAt(*probe, "grpc")) DropIf(*grpc, "service", "");
}

void LevelEnv(json::object& container) {
  std::set<std::string> names;
  bool ordered = false;
  ForEachObject(container, "env", [&](json::object& variable) {
    const json::value* name = variable.if_contains("name");
    if (name == nullptr || !name->is_string() || !names.insert(std::string(name->get_string().c_str())).second) {
      ordered = true;
    }
    const json::value* value = variable.if_contains("value");
    if (value != nullptr && value->is_string() && value->get_string().find("$(") != json::string::npos) ordered = true;
    DropIf(variable, "value", "");
    if (json::object* from = ObjectAt(variable, "valueFrom")) {
      if (json::object* field = ObjectAt(*from, "fieldRef")) DropIf(*field, "apiVersion", "v1");
      if (json::object* resource = ObjectAt(*from, "resourceFieldRef")) {
        if (json::value* divisor = resource->if_contains("divisor")) LevelAmount(*divisor);
        DropIf(*resource, "divisor", "0");
      }
      for (const char* reference : {"secretKeyRef", "configMapKeyRef"}) {
        if (json::object* key = ObjectAt(*from, reference)) DropIf(*key, "optional", false);
      }
    }
  });
  if (!ordered) SortList(container, "env");
}

// As the API server does it: Always for the tag latest and for none.
void DropImpliedPullPolicy(json::object& container) {
  const json::value* image = container.if_contains("image");
  if (image == nullptr || !image->is_string()) return;
  const std::string text(image->get_string().c_str());
  const size_t slash = text.rfind('/');
  const size_t colon = text.rfind(':');
  const bool digest = text.find('@') != text.npos;
  const bool tagged = colon != text.npos && (slash == text.npos || colon > slash);
  const bool latest = !digest && (!tagged || text.substr(colon) == ":latest");
  DropIf(container, "imagePullPolicy", latest ? "Always" : "IfNotPresent");
}

void LevelContainer(json::object& container) {
  DropIf(container, "terminationMessagePath", "/dev/termination-log");
  DropIf(container, "terminationMessagePolicy", "File");
  for (const char* flag : {"stdin", "stdinOnce", "tty"}) DropIf(container, flag, false);
  DropImpliedPullPolicy(container);
  LevelEnv(container);
  ForEachObject(container, "envFrom", [](json::object& source) {
    DropIf(source, "prefix", "");
    for (const char* reference : {"secretRef", "configMapRef"}) {
      if (json::object* object = ObjectAt(source, reference)) DropIf(*object, "optional", false);
    }
  });
  ForEachObject(container, "ports", [](json::object& port) {
    DropIf(port, "protocol", "TCP");
    DropIf(port, "hostPort", 0);
  });
  SortList(container, "ports");
  ForEachObject(container, "volumeMounts", [](json::object& mount) {
    DropIf(mount, "readOnly", false);
    DropIf(mount, "subPath", "");
  });
  SortList(container, "volumeMounts");
  SortList(container, "volumeDevices");
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) LevelProbe(container, probe);
  if (json::object* lifecycle = ObjectAt(container, "lifecycle")) {
    for (const char* hook : {"postStart", "preStop"}) LevelProbe(*lifecycle, hook);
  }
  if (json::object* resources = ObjectAt(container, "resources")) {
    for (const char* amounts : {"limits", "requests"}) {
      LevelAmounts(*resources, amounts);
      DropEmpty(*resources, amounts);
    }
  }
  DropEmpty(container, "resources");
  if (json::object* security = ObjectAt(container, "securityContext")) {
    if (json::object* capabilities = ObjectAt(*security, "capabilities")) {
      SortList(*capabilities, "add");
      SortList(*capabilities, "drop");
    }
    DropEmpty(*security, "capabilities");
  }
  DropEmpty(container, "securityContext");
}

void LevelVolume(json::object& volume) {
  constexpr int kMode = 0644;
  for (const char* kind : {"secret", "configMap", "projected", "downwardAPI"}) {
    json::object* source = ObjectAt(volume, kind);
    if (source == nullptr) continue;
    DropIf(*source, "defaultMode", kMode);
    DropIf(*source, "optional", false);
  }
  if (json::object* path = ObjectAt(volume, "hostPath")) DropIf(*path, "type", "");
  if (json::object* empty = ObjectAt(volume, "emptyDir")) {
    DropIf(*empty, "medium", "");
    if (json::value* limit = empty->if_contains("sizeLimit")) LevelAmount(*limit);
  }
}

void LevelPodSpec(json::object& spec) {
  DropIf(spec, "restartPolicy", "Always");
  DropIf(spec, "schedulerName", "default-scheduler");
  for (const char* nothing : {"securityContext", "affinity", "nodeSelector"}) DropEmpty(spec, nothing);
  // The older name of the same.
  const json::value* account = spec.if_contains("serviceAccountName");
  if (account != nullptr) DropIf(spec, "serviceAccount", json::value(*account));
  for (const char* list : {"initContainers", "containers"}) ForEachObject(spec, list, LevelContainer);
  ForEachObject(spec, "volumes", LevelVolume);
  for (const char* list : {"volumes", "tolerations", "imagePullSecrets", "topologySpreadConstraints"}) {
    SortList(spec, list);
  }
}

bool IsNothing(const json::value& value) {
  return value.is_null() || value == json::value(json::object()) || value == json::value(json::array()) ||
         value == json::value("");
}

json::value LevelPatch(json::value patch) {
  if (json::object* object = patch.if_object()) {
    object->erase("status");
    if (json::object* metadata = ObjectAt(*object, "metadata")) {
      metadata->erase("creationTimestamp");
      DropEmpty(*object, "metadata");
    }
  }
  LevelAmountsWithin(patch);
  return patch;
}

}  // namespace

json::value CanonicalPodTemplate(const json::value& pod_template) {
  json::object canonical;
  const json::object* object = pod_template.if_object();
  if (object == nullptr) return canonical;
  if (const json::value* metadata = object->if_contains("metadata"); metadata != nullptr && metadata->is_object()) {
    json::object kept;
    for (const char* name : {"labels", "annotations"}) {
      const json::value* map = metadata->get_object().if_contains(name);
      if (map != nullptr && !IsNothing(*map)) kept[name] = *map;
    }
    if (!kept.empty()) canonical["metadata"] = std::move(kept);
  }
  if (const json::value* spec = object->if_contains("spec"); spec != nullptr && spec->is_object()) {
    json::value level = *spec;
    DropNothings(level);
    LevelPodSpec(level.get_object());
    if (!IsNothing(level)) canonical["spec"] = std::move(level);
  }
  return canonical;
}

json::value CanonicalComponent(const json::value& block) {
  json::object canonical;
  const json::object* object = block.if_object();
  if (object == nullptr) return canonical;
  for (const auto& member : *object) {
    const std::string_view name(member.key().data(), member.key().size());
    // Ignored, as api/gpu_pool.h says.
    if (name == "remoteModeImage" || name == "embeddedModeImage" || name == "patchToEmbeddedWorkerContainer" ||
        name == "patchEmbeddedWorkerToPod") {
      continue;
    }
    json::value value = member.value();
    if (name == "podTemplate") {
      const json::object* outer = value.if_object();
      const json::value* inner = outer == nullptr ? nullptr : outer->if_contains("template");
      value = inner == nullptr ? json::value(json::object()) : CanonicalPodTemplate(*inner);
    } else if (name == "patchToPod" || name == "patchToContainer") {
      value = LevelPatch(std::move(value));
    }
    if (IsNothing(value) || (name == "portNumber" && value == 8000) || (name == "enableVector" && value == false)) {
      continue;
    }
    canonical[member.key()] = std::move(value);
  }
  return canonical;
}

std::string CanonicalText(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object: {
      const json::object& object = value.get_object();
      std::vector<json::string_view> names;
      for (const auto& member : object) names.push_back(member.key());
      std::sort(names.begin(), names.end());
      std::string text = "{";
      for (const json::string_view name : names) {
        if (text.size() > 1) text += ',';
        text += json::serialize(json::string_view(name)) + ":" + CanonicalText(object.at(name));
      }
      return text + "}";
    }
    case json::kind::array: {
      std::string text = "[";
      for (const json::value& element : value.get_array()) {
        if (text.size() > 1) text += ',';
        text += CanonicalText(element);
      }
      return text + "]";
    }
    case json::kind::double_: {
      const double number = value.get_double();
      if (std::trunc(number) == number && std::abs(number) < 9e15) {
        return std::to_string(static_cast<int64_t>(number));
      }
      return json::serialize(value);
    }
    default:
      return json::serialize(value);
  }
}

std::string Digest(std::string_view text) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  return HexEncode(std::string_view(reinterpret_cast<const char*>(hash), 8));
}

}  // namespace tf::rollout
