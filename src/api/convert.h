// How json.h works: for the .cc files that instantiate FromJson and ToJson, and for tests that enumerate members.
//
// Each struct has one table, a row for each member: its key, how to read and write it, and what type it is. Everything
// else is ordinary code over these tables, so that a struct costs little to compile.
#pragma once

#include <boost/describe.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "api/json.h"
#include "api/quantity.h"
#include "api/values.h"

namespace tf::api::convert {

struct Member;

// The structs of the API: each has a member for what it does not know.
template <typename T>
concept Struct = requires(T value) {
  { value.extra } -> std::same_as<JsonObject&>;
};

// What a member is, as a schema would say it.
struct Type {
  enum class Kind {
    kString,
    kBool,
    kInt32,
    kInt64,
    kUint32,
    kUint64,
    kQuantity,
    kTime,
    kIntOrString,
    kAny,
    kObject,
    kArray,
    kMap,
    kStruct
  };
  Kind kind;
  const Type* element = nullptr;                      // of kArray and kMap
  const std::vector<Member>& (*members)() = nullptr;  // of kStruct
};

// Where in the object the reader is: a list from the inside out, made into text only for an error.
struct Place {
  const Place* outer = nullptr;
  std::string_view key = {};
  size_t index = 0;
  bool is_index = false;

  std::string Text() const;
};

struct Member {
  std::string key;
  const Type* type;
  bool optional;
  bool always;
  // Fails with the place in the message. `object` is the struct.
  absl::Status (*read)(const Json& json, const Place& place, void* object);
  // False: blank, `json` is untouched.
  bool (*write)(const void* object, Json& json);
};

absl::Status Expected(const Place& place, std::string_view what, const Json& found);
absl::Status Because(const Place& place, const absl::Status& status);

absl::Status ReadStruct(const Json& json, const Place& place, const std::vector<Member>& members, void* object,
                        JsonObject& extra);
// False when everything in it is blank, members of kAlways included; `json` is then an object with these.
bool WriteStruct(const std::vector<Member>& members, const void* object, const JsonObject& extra, Json& json);
// operator_ -> operator, requests_tflops -> requests.tflops
std::string KeyOfMember(std::string_view name);

absl::Status Read(const Json& json, const Place& place, std::string& value);
absl::Status Read(const Json& json, const Place& place, bool& value);
absl::Status Read(const Json& json, const Place& place, int32_t& value);
absl::Status Read(const Json& json, const Place& place, int64_t& value);
absl::Status Read(const Json& json, const Place& place, uint32_t& value);
absl::Status Read(const Json& json, const Place& place, uint64_t& value);
absl::Status Read(const Json& json, const Place& place, Quantity& value);
absl::Status Read(const Json& json, const Place& place, Time& value);
absl::Status Read(const Json& json, const Place& place, IntOrString& value);
absl::Status Read(const Json& json, const Place& place, Json& value);
absl::Status Read(const Json& json, const Place& place, JsonObject& value);
template <typename T>
absl::Status Read(const Json& json, const Place& place, std::vector<T>& value);
template <typename T>
absl::Status Read(const Json& json, const Place& place, std::map<std::string, T>& value);
template <Struct T>
absl::Status Read(const Json& json, const Place& place, T& value);

// False: blank. The JSON is set in any case.
bool Write(const std::string& value, Json& json);
bool Write(bool value, Json& json);
bool Write(int32_t value, Json& json);
bool Write(int64_t value, Json& json);
bool Write(uint32_t value, Json& json);
bool Write(uint64_t value, Json& json);
bool Write(const Quantity& value, Json& json);
bool Write(const Time& value, Json& json);
bool Write(const IntOrString& value, Json& json);
bool Write(const Json& value, Json& json);
bool Write(const JsonObject& value, Json& json);
template <typename T>
bool Write(const std::vector<T>& value, Json& json);
template <typename T>
bool Write(const std::map<std::string, T>& value, Json& json);
template <Struct T>
bool Write(const T& value, Json& json);

template <typename S>
const std::vector<Member>& MembersOf();

// The type, with one level of optional taken off.
template <typename T>
struct TypeOf;
template <Type::Kind kind>
struct Simple {
  static constexpr bool kOptional = false;
  static const Type* Get() {
    static const Type type{kind};
    return &type;
  }
};
template <>
struct TypeOf<std::string> : Simple<Type::Kind::kString> {};
template <>
struct TypeOf<bool> : Simple<Type::Kind::kBool> {};
template <>
struct TypeOf<int32_t> : Simple<Type::Kind::kInt32> {};
template <>
struct TypeOf<int64_t> : Simple<Type::Kind::kInt64> {};
template <>
struct TypeOf<uint32_t> : Simple<Type::Kind::kUint32> {};
template <>
struct TypeOf<uint64_t> : Simple<Type::Kind::kUint64> {};
template <>
struct TypeOf<Quantity> : Simple<Type::Kind::kQuantity> {};
template <>
struct TypeOf<Time> : Simple<Type::Kind::kTime> {};
template <>
struct TypeOf<IntOrString> : Simple<Type::Kind::kIntOrString> {};
template <>
struct TypeOf<Json> : Simple<Type::Kind::kAny> {};
template <>
struct TypeOf<JsonObject> : Simple<Type::Kind::kObject> {};
template <typename T>
struct TypeOf<std::vector<T>> {
  static constexpr bool kOptional = false;
  static const Type* Get() {
    static const Type type{Type::Kind::kArray, TypeOf<T>::Get()};
    return &type;
  }
};
template <typename T>
struct TypeOf<std::map<std::string, T>> {
  static constexpr bool kOptional = false;
  static const Type* Get() {
    static const Type type{Type::Kind::kMap, TypeOf<T>::Get()};
    return &type;
  }
};
template <typename T>
struct TypeOf<std::optional<T>> {
  static constexpr bool kOptional = true;
  static const Type* Get() { return TypeOf<T>::Get(); }
};
template <Struct T>
struct TypeOf<T> {
  static constexpr bool kOptional = false;
  static const Type* Get() {
    static const Type type{Type::Kind::kStruct, nullptr, &MembersOf<T>};
    return &type;
  }
};

template <typename S>
bool IsAlways(std::string_view name) {
  if constexpr (requires { S::kAlways; }) {
    for (std::string_view one : S::kAlways) {
      if (one == name) return true;
    }
  }
  return false;
}

template <typename S, auto pointer>
absl::Status ReadMember(const Json& json, const Place& place, void* object) {
  auto& member = static_cast<S*>(object)->*pointer;
  using T = std::remove_cvref_t<decltype(member)>;
  if constexpr (TypeOf<T>::kOptional) {
    return Read(json, place, member.emplace());
  } else {
    return Read(json, place, member);
  }
}

template <typename S, auto pointer>
bool WriteMember(const void* object, Json& json) {
  const auto& member = static_cast<const S*>(object)->*pointer;
  using T = std::remove_cvref_t<decltype(member)>;
  if constexpr (TypeOf<T>::kOptional) {
    if (!member.has_value()) return false;
    Write(*member, json);
    return true;
  } else {
    return Write(member, json);
  }
}

template <typename S>
const std::vector<Member>& MembersOf() {
  static const std::vector<Member> members = [] {
    std::vector<Member> rows;
    boost::mp11::mp_for_each<boost::describe::describe_members<S, boost::describe::mod_public>>([&](auto descriptor) {
      using D = decltype(descriptor);
      using T = std::remove_cvref_t<decltype(std::declval<S>().*D::pointer)>;
      rows.push_back({KeyOfMember(D::name), TypeOf<T>::Get(), TypeOf<T>::kOptional, IsAlways<S>(D::name),
                      &ReadMember<S, D::pointer>, &WriteMember<S, D::pointer>});
    });
    return rows;
  }();
  return members;
}

template <typename T>
absl::Status Read(const Json& json, const Place& place, std::vector<T>& value) {
  const JsonArray* array = json.if_array();
  if (array == nullptr) return Expected(place, "an array", json);
  value.clear();
  value.reserve(array->size());
  for (size_t i = 0; i < array->size(); ++i) {
    T element{};
    if (auto status = Read((*array)[i], Place{&place, {}, i, true}, element); !status.ok()) return status;
    value.push_back(std::move(element));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Read(const Json& json, const Place& place, std::map<std::string, T>& value) {
  const JsonObject* object = json.if_object();
  if (object == nullptr) return Expected(place, "an object", json);
  value.clear();
  for (const auto& [key, one] : *object) {
    const std::string_view name(key.data(), key.size());
    if (auto status = Read(one, Place{&place, name}, value[std::string(name)]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <Struct T>
absl::Status Read(const Json& json, const Place& place, T& value) {
  return ReadStruct(json, place, MembersOf<T>(), &value, value.extra);
}

template <typename T>
bool Write(const std::vector<T>& value, Json& json) {
  JsonArray& array = json.emplace_array();
  array.reserve(value.size());
  for (const T& one : value) Write(one, array.emplace_back(nullptr));
  return !value.empty();
}

template <typename T>
bool Write(const std::map<std::string, T>& value, Json& json) {
  JsonObject& object = json.emplace_object();
  for (const auto& [key, one] : value) Write(one, object[key]);
  return !value.empty();
}

template <Struct T>
bool Write(const T& value, Json& json) {
  return WriteStruct(MembersOf<T>(), &value, value.extra, json);
}

}  // namespace tf::api::convert

namespace tf::api {

template <typename T>
absl::StatusOr<T> FromJson(const Json& json) {
  T value{};
  if (auto status = convert::Read(json, convert::Place{}, value); !status.ok()) return status;
  return value;
}

template <typename T>
Json ToJson(const T& value) {
  Json json;
  convert::Write(value, json);
  if constexpr (requires { T::kResource; }) {
    JsonObject& object = json.get_object();
    if (!object.contains("apiVersion")) object["apiVersion"] = T::kResource.ApiVersion();
    if (!object.contains("kind")) object["kind"] = T::kResource.kind;
  }
  return json;
}

}  // namespace tf::api
