#include "kube/event_correlator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tf::kube {
namespace {

constexpr char kCombined[] = "(combined from similar events): ";

std::string MicroTime(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()); }
std::string SecondTime(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()); }

// At most `limit` bytes, and no character in two.
std::string Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return std::string(text.substr(0, limit));
}

}  // namespace

template <typename Value>
Value* EventCorrelator::Recent<Value>::Find(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->second;
}

template <typename Value>
Value& EventCorrelator::Recent<Value>::operator[](const std::string& key) {
  if (Value* value = Find(key)) return *value;
  entries_.emplace_front(key, Value());
  index_[key] = entries_.begin();
  if (entries_.size() > limit_) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return entries_.front().second;
}

template <typename Value>
void EventCorrelator::Recent<Value>::Erase(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return;
  entries_.erase(found->second);
  index_.erase(found);
}

Json EventCorrelator::Write::SeriesPatch() const {
  JsonObject patch;
  for (const char* name : {"series", "count", "lastTimestamp"}) {
    const Json* field = Field(event, name);
    patch[name] = field != nullptr ? *field : Json(nullptr);
  }
  return Json(std::move(patch));
}

EventCorrelator::EventCorrelator(std::string controller, std::string instance, Limits limits)
    : controller_(std::move(controller)),
      instance_(Cut(instance, 128)),
      limits_(limits),
      series_(limits.remembered),
      similar_(limits.remembered),
      buckets_(limits.remembered) {}

Json EventCorrelator::MakeEvent(const Happening& happening, const std::string& note, absl::Time wall) {
  const std::string_view ns = Text(happening.regarding, "namespace");
  // As long as the server allows; the time in it keeps it apart from others.
  const std::string name = absl::StrCat(Cut(Text(happening.regarding, "name"), 230), ".",
                                        absl::Hex(absl::ToUnixNanos(wall), absl::kZeroPad16));
  return Json(JsonObject{{"apiVersion", "v1"},
                         {"kind", "Event"},
                         {"metadata", {{"namespace", ns.empty() ? "default" : ns}, {"name", name}}},
                         {"eventTime", MicroTime(wall)},
                         {"firstTimestamp", SecondTime(wall)},
                         {"lastTimestamp", SecondTime(wall)},
                         {"count", 1},
                         {"source", {{"component", controller_}}},
                         {"reportingComponent", controller_},
                         {"reportingInstance", instance_},
                         {"action", Cut(happening.action, 128)},
                         {"reason", Cut(happening.reason, 128)},
                         {"involvedObject", happening.regarding},
                         {"message", Cut(note, 1024)},
                         {"type", happening.type}});
}

bool EventCorrelator::TakeToken(const std::string& object, absl::Duration now) {
  Bucket& bucket = buckets_[object];
  const double burst = limits_.burst;
  bucket.tokens =
      bucket.tokens ? std::min(burst, *bucket.tokens + absl::FDivDuration(now - bucket.at, limits_.refill)) : burst;
  bucket.at = now;
  if (*bucket.tokens < 1) return false;
  *bucket.tokens -= 1;
  return true;
}

EventCorrelator::Write EventCorrelator::SeriesWrite(Series& series, absl::Duration now) {
  series.written_count = series.count;
  series.written = now;
  EnsureField(series.event, "series") =
      JsonObject{{"count", series.count}, {"lastObservedTime", MicroTime(series.last_wall)}};
  EnsureField(series.event, "count") = series.count;
  EnsureField(series.event, "lastTimestamp") = SecondTime(series.last_wall);
  return {.create = false, .event = series.event};
}

EventCorrelator::Outcome EventCorrelator::Add(const Happening& happening, absl::Duration now, absl::Time wall) {
  const auto& r = happening.regarding;
  const std::string object =
      absl::StrFormat("%s|%s|%s|%s|%s|%s", std::string(Text(r, "apiVersion")), std::string(Text(r, "kind")),
                      std::string(Text(r, "namespace")), std::string(Text(r, "name")), std::string(Text(r, "uid")),
                      std::string(Text(r, "fieldPath")));
  const std::string like = absl::StrCat(object, "|", happening.type, "|", happening.reason, "|", happening.action);

  Similar& similar = similar_[like];
  if (now - similar.last > limits_.similar_within) similar.notes.clear();
  similar.last = now;
  const bool known = similar.notes.contains(happening.note);
  const bool combined = !known && similar.notes.size() >= static_cast<size_t>(limits_.similar);
  if (!known && !combined) similar.notes.insert(happening.note);

  const std::string key = combined ? absl::StrCat(like, "|+") : absl::StrCat(like, "|=", happening.note);
  if (Series* series = series_.Find(key)) {
    if (now - series->last < limits_.series_end) {
      ++series->count;
      series->last = now;
      series->last_wall = wall;
      // The first repetition shows that there is a series; the others wait for Tick.
      if (series->count == 2 && TakeToken(object, now)) return {.write = SeriesWrite(*series, now)};
      return {};
    }
    series_.Erase(key);
  }
  if (!TakeToken(object, now)) return {.dropped = true};
  Series& series = series_[key];
  series.event = MakeEvent(happening, combined ? absl::StrCat(kCombined, happening.note) : happening.note, wall);
  series.count = series.written_count = 1;
  series.last = series.written = now;
  series.last_wall = wall;
  return {.write = Write{.create = true, .event = series.event}};
}

std::vector<EventCorrelator::Write> EventCorrelator::Tick(absl::Duration now) {
  std::vector<Write> writes;
  std::vector<std::string> ended;
  for (auto& [key, series] : series_.entries()) {
    const bool over = now - series.last >= limits_.series_end;
    if (series.count > series.written_count && (over || now - series.written >= limits_.heartbeat)) {
      writes.push_back(SeriesWrite(series, now));
    }
    if (over) ended.push_back(key);
  }
  for (const std::string& key : ended) series_.Erase(key);
  return writes;
}

}  // namespace tf::kube
