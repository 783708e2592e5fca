// The body of a watch, in pieces. The first byte of the input is the size of the pieces.
//
// What must hold: nothing crashes; the pieces make no difference; what an event has can be written, read, and is the
// same then; a stream that is refused stays refused.
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kube/error.h"
#include "kube/watch_parser.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  std::string events;
  absl::StatusCode code = absl::StatusCode::kOk;
  bool operator==(const Outcome&) const = default;
};

Outcome Run(std::string_view stream, size_t piece) {
  Outcome outcome;
  tf::kube::WatchParser parser([&](tf::kube::WatchEvent event) {
    Require(event.object != nullptr && event.object->is_object());
    const std::string text = boost::json::serialize(*event.object);
    const auto again = tf::kube::ParseShared(text);
    Require(again.ok() && boost::json::serialize(**again) == text);
    outcome.events += static_cast<char>('0' + static_cast<int>(event.type)) + text + "\n";
    return true;
  });
  while (!stream.empty()) {
    const std::string_view next = stream.substr(0, piece);
    stream.remove_prefix(next.size());
    if (!parser.Feed(next)) {
      Require(!parser.status().ok() && !parser.Feed(next));
      break;
    }
  }
  const absl::Status end = parser.Finish();
  Require(end == parser.status());
  tf::kube::DetailsOf(end);
  outcome.code = end.code();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const Outcome whole = Run(stream, size);
  Require(Run(stream, 1) == whole);
  Require(Run(stream, data[0] + size_t{1}) == whole);
  return 0;
}
