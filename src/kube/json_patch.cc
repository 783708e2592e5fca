#include "kube/json_patch.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tf::kube {
namespace {

void Diff(const Json& before, const Json& after, const std::string& path, JsonArray& patch) {
  if (before == after) return;
  if (before.is_object() && after.is_object()) {
    for (const auto& [name, value] : before.get_object()) {
      if (!after.get_object().contains(name)) {
        patch.push_back({{"op", "remove"}, {"path", absl::StrCat(path, "/", EscapePointer(name))}});
      }
    }
    for (const auto& [name, value] : after.get_object()) {
      const std::string below = absl::StrCat(path, "/", EscapePointer(name));
      if (const Json* known = before.get_object().if_contains(name)) {
        Diff(*known, value, below, patch);
      } else {
        patch.push_back({{"op", "add"}, {"path", below}, {"value", value}});
      }
    }
    return;
  }
  if (before.is_array() && after.is_array()) {
    const JsonArray& a = before.get_array();
    const JsonArray& b = after.get_array();
    // What is equal at both ends stays; the middle is changed in place, and the rest of it goes or comes.
    size_t head = 0;
    while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
    size_t tail = 0;
    while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
    const size_t a_end = a.size() - tail;
    const size_t b_end = b.size() - tail;
    size_t i = head;
    for (; i < std::min(a_end, b_end); ++i) Diff(a[i], b[i], absl::StrCat(path, "/", i), patch);
    for (size_t k = a_end; k > i; --k) patch.push_back({{"op", "remove"}, {"path", absl::StrCat(path, "/", k - 1)}});
    for (size_t k = i; k < b_end; ++k) {
      patch.push_back({{"op", "add"}, {"path", absl::StrCat(path, "/", k)}, {"value", b[k]}});
    }
    return;
  }
  patch.push_back({{"op", "replace"}, {"path", path}, {"value", after}});
}

absl::StatusOr<std::vector<std::string>> Tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  if (pointer.empty()) return tokens;
  if (pointer[0] != '/') return absl::InvalidArgumentError("a path begins with \"/\"");
  for (size_t begin = 1;;) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    std::string token;
    for (size_t i = begin; i < end; ++i) {
      if (pointer[i] != '~') {
        token += pointer[i];
      } else if (i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
        token += pointer[++i] == '0' ? '~' : '/';
      } else {
        return absl::InvalidArgumentError("\"~\" is followed by 0 or 1");
      }
    }
    tokens.push_back(std::move(token));
    if (end == pointer.size()) return tokens;
    begin = end + 1;
  }
}

std::optional<size_t> Index(const std::string& token) {
  size_t index = 0;
  if (token.empty() || (token.size() > 1 && token[0] == '0') ||
      !std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(token, &index)) {
    return std::nullopt;
  }
  return index;
}

// What `tokens[0, count)` lead to; null pointer when it is not there.
Json* Walk(Json& root, const std::vector<std::string>& tokens, size_t count) {
  Json* at = &root;
  for (size_t i = 0; i < count; ++i) {
    if (at->is_object()) {
      at = at->get_object().if_contains(tokens[i]);
      if (at == nullptr) return nullptr;
    } else if (at->is_array()) {
      const std::optional<size_t> index = Index(tokens[i]);
      if (!index || *index >= at->get_array().size()) return nullptr;
      at = &at->get_array()[*index];
    } else {
      return nullptr;
    }
  }
  return at;
}

absl::Status Missing() { return absl::InvalidArgumentError("there is nothing at this path"); }

absl::Status Add(Json& root, const std::vector<std::string>& tokens, Json value) {
  if (tokens.empty()) {
    root = std::move(value);
    return absl::OkStatus();
  }
  Json* parent = Walk(root, tokens, tokens.size() - 1);
  if (parent == nullptr) return Missing();
  if (parent->is_object()) {
    parent->get_object()[tokens.back()] = std::move(value);
    return absl::OkStatus();
  }
  if (!parent->is_array()) return Missing();
  JsonArray& array = parent->get_array();
  const std::optional<size_t> index = tokens.back() == "-" ? array.size() : Index(tokens.back());
  if (!index || *index > array.size()) return absl::InvalidArgumentError("the list is not so long");
  array.insert(array.begin() + *index, std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Json> Remove(Json& root, const std::vector<std::string>& tokens) {
  if (tokens.empty()) return std::exchange(root, nullptr);
  Json* parent = Walk(root, tokens, tokens.size() - 1);
  Json* target = parent == nullptr ? nullptr : Walk(*parent, {tokens.back()}, 1);
  if (target == nullptr) return Missing();
  Json removed = std::move(*target);
  if (parent->is_object()) {
    // The order of the others stays: people read it.
    JsonObject& object = parent->get_object();
    object.stable_erase(object.find(tokens.back()));
  } else {
    parent->get_array().erase(parent->get_array().begin() + *Index(tokens.back()));
  }
  return removed;
}

absl::Status ApplyOne(Json& root, const Json& operation) {
  const std::string_view op = Text(operation, "op");
  const Json* value = Field(operation, "value");
  const auto path = Tokens(Text(operation, "path"));
  if (!path.ok()) return path.status();
  const bool needs_value = op == "add" || op == "replace" || op == "test";
  if (needs_value && value == nullptr) return absl::InvalidArgumentError("\"value\" is missing");
  if (op == "add") return Add(root, *path, *value);
  if (op == "remove") return Remove(root, *path).status();
  if (op == "replace" || op == "test") {
    Json* target = Walk(root, *path, path->size());
    if (target == nullptr) return Missing();
    if (op == "replace") {
      *target = *value;
      return absl::OkStatus();
    }
    return *target == *value ? absl::OkStatus() : absl::FailedPreconditionError("the value is another");
  }
  if (op == "copy" || op == "move") {
    const auto from = Tokens(Text(operation, "from"));
    if (!from.ok()) return from.status();
    Json* source = Walk(root, *from, from->size());
    if (source == nullptr) return absl::InvalidArgumentError("there is nothing at \"from\"");
    if (op == "copy") return Add(root, *path, Json(*source));
    if (path->size() > from->size() && std::equal(from->begin(), from->end(), path->begin())) {
      return absl::InvalidArgumentError("a value cannot move into itself");
    }
    absl::StatusOr<Json> moved = Remove(root, *from);
    if (!moved.ok()) return moved.status();
    return Add(root, *path, *std::move(moved));
  }
  return absl::InvalidArgumentError("expected add, remove, replace, test, copy or move");
}

}  // namespace

std::string EscapePointer(std::string_view token) {
  return absl::StrReplaceAll(absl::string_view(token.data(), token.size()), {{"~", "~0"}, {"/", "~1"}});
}

JsonArray DiffPatch(const Json& before, const Json& after) {
  JsonArray patch;
  Diff(before, after, "", patch);
  return patch;
}

absl::StatusOr<Json> ApplyPatch(Json value, const Json& patch) {
  if (!patch.is_array()) return absl::InvalidArgumentError("JSON patch: expected a list of operations");
  for (size_t i = 0; i < patch.get_array().size(); ++i) {
    const Json& operation = patch.get_array()[i];
    if (absl::Status status = ApplyOne(value, operation); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("JSON patch: operation ", i, " (", std::string(Text(operation, "op")), " ",
                                       std::string(Text(operation, "path")), "): ", status.message()));
    }
  }
  return value;
}

}  // namespace tf::kube
