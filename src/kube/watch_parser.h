// Cuts the body of a watch into events: one JSON object a line, in pieces that end anywhere.
//
// Holds at most one incomplete event, of at most 64 MiB, and looks at each byte once before it is parsed. Not
// thread-safe; pure.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "kube/client.h"

namespace tf::kube {

class WatchParser {
 public:
  static constexpr size_t kMaxEvent = 64 << 20;  // bytes

  // Events that are complete go to `sink`, which returns false to stop.
  explicit WatchParser(std::function<bool(WatchEvent)> sink, std::shared_ptr<const Trim> keep = nullptr)
      : sink_(std::move(sink)), keep_(std::move(keep)) {}

  // False: nothing more is wanted, because `sink` stopped or because of status().
  bool Feed(std::string_view bytes);

  // OK; the Status of an ERROR event; or what is wrong with the stream.
  const absl::Status& status() const { return status_; }

  // The stream ended here: Unavailable when that is in the middle of an event.
  absl::Status Finish();

 private:
  bool Event(std::string_view line);
  absl::Status Read(std::string_view line, const Trim* keep, std::optional<WatchEvent>& event);

  std::function<bool(WatchEvent)> sink_;
  std::shared_ptr<const Trim> keep_;
  std::string partial_;
  absl::Status status_;
};

}  // namespace tf::kube
