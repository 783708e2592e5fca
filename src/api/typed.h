// The verbs of kube::Client on the structs of the API. Errors are those of the client; an object that cannot be read is
// InvalidArgument with its name and the place.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/json.h"
#include "kube/client.h"
#include "kube/object.h"

namespace tf::api {

// FromJson that names the object.
template <typename T>
absl::StatusOr<T> FromObject(const Json& object) {
  absl::StatusOr<T> value = FromJson<T>(object);
  if (value.ok()) return value;
  return absl::Status(value.status().code(), absl::StrCat(T::kResource.kind, " ", kube::KeyOf(object).ToString(), ": ",
                                                          value.status().message()));
}
template <typename T>
absl::StatusOr<T> FromObject(const kube::ObjectPtr& object) {
  if (object == nullptr) return absl::NotFoundError(absl::StrCat("no such ", T::kResource.kind));
  return FromObject<T>(*object);
}

template <typename T>
absl::StatusOr<T> Get(kube::Client& client, const kube::Key& key, const kube::CallOptions& options = {}) {
  auto object = client.Get(T::kResource, key, options);
  if (!object.ok()) return object.status();
  return FromObject<T>(*object);
}

// `unreadable`: those that cannot be read are named there and left out, so that one bad object does not hide the
// others; null: the first one is the error.
template <typename T>
absl::StatusOr<std::vector<T>> List(kube::Client& client, std::string_view ns = "",
                                    const kube::ListOptions& options = {},
                                    std::vector<absl::Status>* unreadable = nullptr) {
  auto page = client.List(T::kResource, ns, options);
  if (!page.ok()) return page.status();
  std::vector<T> values;
  values.reserve(page->items.size());
  for (const kube::ObjectPtr& object : page->items) {
    absl::StatusOr<T> value = FromObject<T>(object);
    if (value.ok()) {
      values.push_back(*std::move(value));
    } else if (unreadable != nullptr) {
      unreadable->push_back(value.status());
    } else {
      return value.status();
    }
  }
  return values;
}

template <typename T>
absl::StatusOr<T> Create(kube::Client& client, const T& value, const kube::WriteOptions& options = {}) {
  auto object = client.Create(T::kResource, ToJson(value), options);
  if (!object.ok()) return object.status();
  return FromObject<T>(*object);
}

// With the resourceVersion of `value`.
template <typename T>
absl::StatusOr<T> Update(kube::Client& client, const T& value, const kube::WriteOptions& options = {}) {
  auto object = client.Update(T::kResource, ToJson(value), options);
  if (!object.ok()) return object.status();
  return FromObject<T>(*object);
}

template <typename T>
absl::StatusOr<T> UpdateStatus(kube::Client& client, const T& value, const kube::WriteOptions& options = {}) {
  auto object = client.UpdateStatus(T::kResource, ToJson(value), options);
  if (!object.ok()) return object.status();
  return FromObject<T>(*object);
}

}  // namespace tf::api
