// What a pod wants of GPUs, read from its annotations (api/names.h).
//
// Amounts are for each card: compute in thousandths of a TFLOPS or of a percent of whatever card it becomes, memory in
// bytes. Immutable values; errors name the annotation, what it says and what it may say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/object.h"

namespace tf::placement {

// More of anything is taken for this much: sums of many still fit.
inline constexpr int64_t kMostMilliTflops = int64_t{1} << 44;
inline constexpr int64_t kMostVram = int64_t{1} << 48;
inline constexpr int kMostCards = 128;

struct Amount {
  int64_t millitflops = 0;
  int64_t vram = 0;
  bool operator==(const Amount&) const = default;
};

// How a card is shared. kShared is the whole card, for one pod and without limits.
enum class Isolation : uint8_t { kSoft, kHard, kShared };

// "soft", "hard" and "shared"; Unimplemented for "partitioned", InvalidArgument for others.
absl::StatusOr<Isolation> ParseIsolation(std::string_view text);
std::string_view Name(Isolation isolation);

struct Request {
  std::string pool = {};
  std::string vendor = {};                 // "": any
  std::string model = {};                  // "": any
  Amount request = {};                     // what it is certain of
  Amount limit = {};                       // what it never exceeds
  int64_t request_millipercent = 0;        // instead of request.millitflops
  int64_t limit_millipercent = 0;          // instead of limit.millitflops
  int count = 1;                           // cards, of one node
  std::vector<int32_t> indices = {};       // only these of a node; none: any
  Isolation isolation = Isolation::kSoft;  // what upstream has where nothing is said
  bool operator==(const Request&) const = default;
};

// A missing request is the limit, and the other way round.
absl::StatusOr<Request> RequestOf(const kube::Json& pod);

// The cards in kGpuIdsAnnotation; none: it has none yet.
std::vector<std::string> CardsOf(const kube::Json& pod);

// "2 cards with 20 TFLOPS and 4Gi each": for people.
std::string Text(const Request& request);

}  // namespace tf::placement
