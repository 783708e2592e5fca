#include "kube/watch_parser.h"

#include <boost/json/serialize.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kube/error.h"
#include "kube/parse_briefly.h"
#include "kube/trim.h"

namespace tf::kube {
namespace {

constexpr size_t kKept = 1 << 20;  // bytes of buffer that an event leaves for the next one

std::optional<WatchEvent::Type> TypeOf(std::string_view name) {
  if (name == "ADDED") return WatchEvent::Type::kAdded;
  if (name == "MODIFIED") return WatchEvent::Type::kModified;
  if (name == "DELETED") return WatchEvent::Type::kDeleted;
  if (name == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

}  // namespace

// A line break is never inside a JSON text as the server writes it, so it alone tells where an event ends.
bool WatchParser::Feed(std::string_view bytes) {
  if (!status_.ok()) return false;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > kMaxEvent) {
      status_ = absl::ResourceExhaustedError(absl::StrCat("an event of the watch is over ", kMaxEvent, " bytes"));
      return false;
    }
    if (end == bytes.npos) {
      partial_.append(piece);
      return true;
    }
    bytes.remove_prefix(end + 1);
    if (partial_.empty()) {
      if (!Event(piece)) return false;
      continue;
    }
    partial_.append(piece);
    const bool go_on = Event(partial_);
    partial_.clear();
    if (partial_.capacity() > kKept) partial_.shrink_to_fit();
    if (!go_on) return false;
  }
  return true;
}

absl::Status WatchParser::Finish() {
  if (status_.ok() && !partial_.empty()) {
    std::string last;
    last.swap(partial_);
    // The line break may be missing, but not a part of the event.
    if (ParseJson(last).ok()) {
      Event(last);
    } else {
      status_ = absl::UnavailableError(
          absl::StrCat("the watch ended in the middle of an event, after ", last.size(), " bytes of it"));
    }
  }
  return status_;
}

absl::Status WatchParser::Read(std::string_view line, const Trim* keep, std::optional<WatchEvent>& event) {
  bool whole = false;  // is wanted after all
  const auto use = [&](Json& value) {
    const std::string_view type = Text(value, "type");
    const Json* object = Field(value, "object");
    if (object == nullptr || !object->is_object()) {
      return absl::DataLossError(
          absl::StrCat("an event of the watch has no object: ", std::string(line.substr(0, 200))));
    }
    const std::optional<WatchEvent::Type> known = TypeOf(type);
    if (keep != nullptr && (type == "ERROR" || known == WatchEvent::Type::kBookmark)) {
      whole = true;
      return absl::OkStatus();
    }
    if (type == "ERROR") {
      return StatusFromBody(static_cast<int>(Number(*object, "code")), boost::json::serialize(*object),
                            absl::ZeroDuration());
    }
    if (!known.has_value()) {
      return absl::DataLossError(
          absl::StrCat("an event of the watch is of the unknown type \"", std::string(type.substr(0, 50)), "\""));
    }
    event = WatchEvent{*known, Compact(*object)};
    return absl::OkStatus();
  };
  const absl::Status status = keep == nullptr ? ParseBriefly(line, use) : keep->ParseEvent(line, use);
  return whole ? Read(line, nullptr, event) : status;
}

bool WatchParser::Event(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == line.npos) return true;
  std::optional<WatchEvent> event;
  absl::Status parsed = Read(line, keep_.get(), event);
  if (absl::IsInvalidArgument(parsed) && !DetailsOf(parsed).has_value()) {
    parsed = absl::DataLossError(absl::StrCat("an event of the watch is ", parsed.message()));
  }
  if (!parsed.ok()) {
    status_ = parsed;
    return false;
  }
  return sink_(*std::move(event));
}

}  // namespace tf::kube
