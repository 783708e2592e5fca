#include "kube/merge_patch.h"

#include <boost/json/object.hpp>
#include <utility>

namespace tf::kube {
namespace {

// False: they are equal. Otherwise `patch` is what makes `after` of `before`.
bool Differs(const Json& before, const Json& after, Json& patch) {
  if (!before.is_object() || !after.is_object()) {
    if (before == after) return false;
    patch = after;
    return true;
  }
  JsonObject changes;
  const JsonObject& old = before.get_object();
  const JsonObject& wanted = after.get_object();
  for (const auto& member : old) {
    if (!wanted.contains(member.key())) changes[member.key()] = nullptr;
  }
  for (const auto& member : wanted) {
    const auto known = old.find(member.key());
    if (known == old.end()) {
      changes[member.key()] = member.value();
      continue;
    }
    Json change;
    if (Differs(known->value(), member.value(), change)) changes[member.key()] = std::move(change);
  }
  if (changes.empty()) return false;
  patch = std::move(changes);
  return true;
}

}  // namespace

Json MergePatch(const Json& before, const Json& after) {
  Json patch = JsonObject();
  Differs(before, after, patch);
  return patch;
}

bool IsEmptyPatch(const Json& patch) { return patch.is_object() && patch.get_object().empty(); }

}  // namespace tf::kube
