#include "tfctl/output.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tf::tfctl {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

// Characters and not bytes: names of customers are UTF-8.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void AppendJson(const Json& value, size_t indent, std::string& text) {
  const std::string inner(indent + 2, ' ');
  if (const JsonObject* object = value.if_object(); object != nullptr && !object->empty()) {
    const char* separator = "{\n";
    for (const auto& [key, member] : *object) {
      absl::StrAppend(&text, separator, inner, boost::json::serialize(Json(key)), ": ");
      AppendJson(member, indent + 2, text);
      separator = ",\n";
    }
    absl::StrAppend(&text, "\n", std::string(indent, ' '), "}");
  } else if (const JsonArray* array = value.if_array(); array != nullptr && !array->empty()) {
    const char* separator = "[\n";
    for (const Json& element : *array) {
      absl::StrAppend(&text, separator, inner);
      AppendJson(element, indent + 2, text);
      separator = ",\n";
    }
    absl::StrAppend(&text, "\n", std::string(indent, ' '), "]");
  } else {
    text += boost::json::serialize(value);
  }
}

// Whether a reader of YAML takes it for a string as it stands.
bool IsPlain(std::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/')) return false;
  for (const std::string_view word : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (absl::AsciiStrToLower(absl::string_view(text.data(), text.size())) == word) return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("/._-+@=").find(c) != std::string_view::npos;
  });
}

std::string Scalar(const Json& value) {
  if (value.is_string()) {
    const std::string_view text(value.get_string().data(), value.get_string().size());
    if (IsPlain(text)) return std::string(text);
  }
  return boost::json::serialize(value);  // also {} and []
}

bool IsBlock(const Json& value) {
  return (value.is_object() && !value.get_object().empty()) || (value.is_array() && !value.get_array().empty());
}

// `text` is at the place where the value's first line begins, `indent` blanks in.
void AppendYaml(const Json& value, size_t indent, std::string& text) {
  bool first = true;
  const auto begin_line = [&] {
    if (!first) text += std::string(indent, ' ');
    first = false;
  };
  if (const JsonObject* object = value.if_object(); object != nullptr && !object->empty()) {
    for (const auto& [key, member] : *object) {
      begin_line();
      absl::StrAppend(&text, Scalar(Json(key)), ":");
      if (!IsBlock(member)) {
        absl::StrAppend(&text, " ", Scalar(member), "\n");
        continue;
      }
      const size_t inner = indent + (member.is_object() ? 2 : 0);
      absl::StrAppend(&text, "\n", std::string(inner, ' '));
      AppendYaml(member, inner, text);
    }
  } else if (const JsonArray* array = value.if_array(); array != nullptr && !array->empty()) {
    for (const Json& element : *array) {
      begin_line();
      text += "- ";
      AppendYaml(element, indent + 2, text);
    }
  } else {
    absl::StrAppend(&text, Scalar(value), "\n");
  }
}

}  // namespace

std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  const auto shown = [](const std::string& cell) { return cell.empty() ? std::string("-") : cell; };
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], Width(shown(row[c])));
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string cell = shown(row[c]);
      text += cell;
      text += c + 1 < widths.size() ? std::string(widths[c] - Width(cell) + 2, ' ') : "\n";
    }
  }
  return text;
}

std::string PrettyJson(const Json& value) {
  std::string text;
  AppendJson(value, 0, text);
  return text + "\n";
}

std::string Yaml(const Json& value) {
  std::string text;
  AppendYaml(value, 0, text);
  return text;
}

std::string Formatted(const Json& value, const std::string& format) {
  return format == "yaml" ? Yaml(value) : PrettyJson(value);
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  const auto rest = [](int64_t value, const char* unit) {
    return value == 0 ? std::string() : absl::StrCat(value, unit);
  };
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (minutes < 10) return absl::StrCat(minutes, "m", rest(seconds % 60, "s"));
  if (hours < 3) return absl::StrCat(minutes, "m");
  if (hours < 8) return absl::StrCat(hours, "h", rest(minutes % 60, "m"));
  if (hours < 48) return absl::StrCat(hours, "h");
  if (days < 8) return absl::StrCat(days, "d", rest(hours % 24, "h"));
  return absl::StrCat(days, "d");
}

}  // namespace tf::tfctl
