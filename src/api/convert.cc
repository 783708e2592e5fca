#include "api/convert.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::api::convert {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string_view KindName(const Json& json) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "true or false";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "an array";
    case boost::json::kind::object:
      return "an object";
  }
  return "something else";
}

// Blank as the rules of json.h have it.
bool IsBlank(const Json& json) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return true;
    case boost::json::kind::bool_:
      return !json.get_bool();
    case boost::json::kind::int64:
      return json.get_int64() == 0;
    case boost::json::kind::uint64:
      return json.get_uint64() == 0;
    case boost::json::kind::double_:
      return json.get_double() == 0;
    case boost::json::kind::string:
      return json.get_string().empty();
    case boost::json::kind::array:
      return json.get_array().empty();
    case boost::json::kind::object:
      return json.get_object().empty();
  }
  return false;
}

template <typename Int>
absl::Status ReadInt(const Json& json, const Place& place, Int& value) {
  const auto out_of_range = [&](const auto& number) {
    return absl::InvalidArgumentError(absl::StrCat(place.Text(), ": expected a whole number from ",
                                                   std::numeric_limits<Int>::min(), " to ",
                                                   std::numeric_limits<Int>::max(), ", found ", number));
  };
  if (const auto* number = json.if_int64()) {
    if (!std::in_range<Int>(*number)) return out_of_range(*number);
    value = static_cast<Int>(*number);
    return absl::OkStatus();
  }
  if (const auto* number = json.if_uint64()) {
    if (!std::in_range<Int>(*number)) return out_of_range(*number);
    value = static_cast<Int>(*number);
    return absl::OkStatus();
  }
  if (const auto* number = json.if_double()) {
    // 1.0 is a whole number too; beyond 2^53 a double says nothing exact.
    if (*number != std::floor(*number) || std::fabs(*number) > 9007199254740992.0 ||
        !std::in_range<Int>(static_cast<int64_t>(*number))) {
      return out_of_range(*number);
    }
    value = static_cast<Int>(*number);
    return absl::OkStatus();
  }
  return Expected(place, "a whole number", json);
}

}  // namespace

std::string Place::Text() const {
  std::vector<const Place*> places;
  for (const Place* place = this; place != nullptr; place = place->outer) {
    if (place->is_index || !place->key.empty()) places.push_back(place);
  }
  std::string text;
  for (auto it = places.rbegin(); it != places.rend(); ++it) {
    const Place& place = **it;
    if (place.is_index) {
      absl::StrAppend(&text, "[", place.index, "]");
    } else if (place.key.find_first_of(".[/") != std::string_view::npos) {
      absl::StrAppend(&text, "[\"", View(place.key), "\"]");
    } else {
      absl::StrAppend(&text, text.empty() ? "" : ".", View(place.key));
    }
  }
  return text.empty() ? "the object" : text;
}

absl::Status Expected(const Place& place, std::string_view what, const Json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(place.Text(), ": expected ", View(what), ", found ", View(KindName(found))));
}

absl::Status Because(const Place& place, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(place.Text(), ": ", status.message()));
}

std::string KeyOfMember(std::string_view name) {
  std::string key(name);
  if (key.ends_with('_')) key.pop_back();
  std::replace(key.begin(), key.end(), '_', '.');
  return key;
}

absl::Status ReadStruct(const Json& json, const Place& place, const std::vector<Member>& members, void* object,
                        JsonObject& extra) {
  const JsonObject* from = json.if_object();
  if (from == nullptr) return Expected(place, "an object", json);
  for (const auto& [key, value] : *from) {
    const std::string_view name(key.data(), key.size());
    const auto member =
        std::find_if(members.begin(), members.end(), [&](const Member& one) { return one.key == name; });
    if (member == members.end()) {
      extra[key] = value;
      continue;
    }
    if (value.is_null()) {
      extra[key] = value;
      continue;
    }
    if (auto status = member->read(value, Place{&place, name}, object); !status.ok()) return status;
    if (member->optional) continue;
    // A container that is not empty is never blank. Of the rest the member knows better: "0" is a blank quantity.
    Json scratch;
    if (value.is_structured() ? IsBlank(value) : !member->write(object, scratch)) extra[key] = value;
  }
  return absl::OkStatus();
}

bool WriteStruct(const std::vector<Member>& members, const void* object, const JsonObject& extra, Json& json) {
  JsonObject& to = json.emplace_object();
  to = extra;
  bool blank = extra.empty();
  for (const Member& member : members) {
    Json value;
    const bool written = member.write(object, value);
    if (written) {
      blank = false;
      to[member.key] = std::move(value);
    } else if (member.always && !to.contains(member.key)) {
      to[member.key] = std::move(value);
    }
  }
  return !blank;
}

absl::Status Read(const Json& json, const Place& place, std::string& value) {
  const auto* text = json.if_string();
  if (text == nullptr) return Expected(place, "a string", json);
  value.assign(text->data(), text->size());
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place& place, bool& value) {
  const bool* flag = json.if_bool();
  if (flag == nullptr) return Expected(place, "true or false", json);
  value = *flag;
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place& place, int32_t& value) { return ReadInt(json, place, value); }
absl::Status Read(const Json& json, const Place& place, int64_t& value) { return ReadInt(json, place, value); }
absl::Status Read(const Json& json, const Place& place, uint32_t& value) { return ReadInt(json, place, value); }
absl::Status Read(const Json& json, const Place& place, uint64_t& value) { return ReadInt(json, place, value); }

absl::Status Read(const Json& json, const Place& place, Quantity& value) {
  if (json.is_number()) {
    const std::string text = boost::json::serialize(json);
    auto quantity = Quantity::Parse(text);
    if (!quantity.ok()) return Because(place, quantity.status());
    value = quantity->ReadAsNumber();
    return absl::OkStatus();
  }
  const auto* text = json.if_string();
  if (text == nullptr) return Expected(place, "a quantity", json);
  auto quantity = Quantity::Parse({text->data(), text->size()});
  if (!quantity.ok()) return Because(place, quantity.status());
  value = *std::move(quantity);
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place& place, Time& value) {
  const auto* text = json.if_string();
  if (text == nullptr) return Expected(place, "a time", json);
  if (text->empty()) return absl::OkStatus();
  auto time = Time::Parse({text->data(), text->size()});
  if (!time.ok()) return Because(place, time.status());
  value = *std::move(time);
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place& place, IntOrString& value) {
  if (const auto* text = json.if_string()) {
    value.value = std::string(text->data(), text->size());
    return absl::OkStatus();
  }
  if (!json.is_number()) return Expected(place, "a whole number or a string", json);
  int64_t number = 0;
  if (auto status = ReadInt(json, place, number); !status.ok()) return status;
  value.value = number;
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place&, Json& value) {
  value = json;
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const Place& place, JsonObject& value) {
  const JsonObject* object = json.if_object();
  if (object == nullptr) return Expected(place, "an object", json);
  value = *object;
  return absl::OkStatus();
}

bool Write(const std::string& value, Json& json) {
  json = value;
  return !value.empty();
}

bool Write(bool value, Json& json) {
  json = value;
  return value;
}

bool Write(int32_t value, Json& json) { return Write(int64_t{value}, json); }

bool Write(int64_t value, Json& json) {
  json = value;
  return value != 0;
}

bool Write(uint32_t value, Json& json) { return Write(int64_t{value}, json); }

bool Write(uint64_t value, Json& json) {
  // What fits is an int64, as the parser has it: the two compare unequal to some readers.
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Write(static_cast<int64_t>(value), json);
  }
  json = value;
  return true;
}

bool Write(const Quantity& value, Json& json) {
  const std::string text = value.Text();
  if (value.read_as_number()) {
    boost::json::error_code error;
    json = boost::json::parse(text, error);
    if (!error) return !value.IsZero();
  }
  json = text;
  return !value.IsZero();
}

bool Write(const Time& value, Json& json) {
  json = value.Text();
  return value.IsSet();
}

bool Write(const IntOrString& value, Json& json) {
  if (const auto* number = std::get_if<int64_t>(&value.value)) return Write(*number, json);
  return Write(std::get<std::string>(value.value), json);
}

bool Write(const Json& value, Json& json) {
  json = value;
  return !IsBlank(value);
}

bool Write(const JsonObject& value, Json& json) {
  json = value;
  return !value.empty();
}

}  // namespace tf::api::convert
