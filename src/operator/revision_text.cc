#include "operator/revision_text.h"

#include <algorithm>

#include "rollout/digest.h"

namespace tf::operators {
namespace {

constexpr size_t kExtraDigits = 8;
constexpr char kOnly = '-', kAnother = '.';
constexpr char kNothing[] = "0";  // how "" is written beside others
constexpr const char* kReachNoPod[] = {
    "remoteModeImage",          "embeddedModeImage", "patchToEmbeddedWorkerContainer",
    "patchEmbeddedWorkerToPod", "vectorImage",       "enableVector"};
constexpr char kMany[] = "m";  // before a digest of more than kMaxExtras

}  // namespace

Revision Revision::Parse(std::string_view text) {
  Revision revision;
  const size_t end = text.find(kOnly);
  revision.config = std::string(text.substr(0, end));
  if (revision.config.empty()) return revision;
  if (end == std::string_view::npos) {
    revision.extras.insert("");
    return revision;
  }
  for (size_t begin = end + 1; begin <= text.size();) {
    const size_t next = std::min(text.find(kAnother, begin), text.size());
    const std::string_view one = text.substr(begin, next - begin);
    revision.extras.emplace(one == kNothing ? "" : one);
    begin = next + 1;
  }
  return revision;
}

std::string Revision::Text() const {
  if (extras.empty() || (extras.size() == 1 && extras.begin()->empty())) return config;
  std::string list;
  for (const std::string& extra : extras) {
    if (!list.empty()) list += kAnother;
    list += extra.empty() ? kNothing : extra;
  }
  if (extras.size() > kMaxExtras) list = kMany + rollout::Digest(list);
  return config + kOnly + list;
}

bool Revision::Includes(const Revision& pod) const {
  return pod.config == config && pod.extras.size() == 1 && extras.contains(*pod.extras.begin());
}

Revision NextRevision(const Revision& before, const std::string& config, const std::vector<PlaceOfPods>& places,
                      bool at_rest) {
  Revision now{config, {}};
  bool changed = before.config != config, grown = false;
  for (const PlaceOfPods& place : places) {
    now.extras.insert(place.extra);
    if (before.extras.contains(place.extra)) continue;
    grown = true;
    for (const std::string& other : place.started_with) changed = changed || other != place.extra;
  }
  return changed || (grown && at_rest) ? now : before;
}

std::string ConfigDigest(const kube::Json& block) {
  kube::Json reaching = block;
  if (reaching.is_object()) {
    for (const char* member : kReachNoPod) reaching.get_object().erase(member);
  }
  return rollout::Digest(rollout::CanonicalText(rollout::CanonicalComponent(reaching)));
}

std::string ExtraDigest(const kube::JsonObject& extra) {
  if (extra.empty()) return "";
  return rollout::Digest(rollout::CanonicalText(extra)).substr(0, kExtraDigits);
}

}  // namespace tf::operators
