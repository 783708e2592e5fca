// What a licence says, and the one line of text that says it.
//
//   tf1;kid=2026a;id=lic-7f3a;customer=Example%20AG;edition=enterprise;issued=2026-11-30T00:00:00Z;expires=...
//
// `tf1`, then key=value fields joined by `;`, each key once and in this order: kid, id, customer, edition, issued,
// expires (required), not-before, grace (days, `14d`), max-gpus, gpus, features (optional). Printable ASCII without
// blanks, quotes, backslash, `$` and backtick, at most 16 KiB, so that the line survives YAML, a shell, an environment
// variable and a template unchanged. Times are UTC, RFC 3339, whole seconds, `Z`.
//
// Pure functions. Nothing here says that a text is genuine: see check.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "license/refusal.h"

namespace tf::license {

inline constexpr size_t kMaxTextBytes = 16 * 1024;
inline constexpr int kMaxGraceDays = 3650;

struct License {
  std::string kid;
  std::string id;
  std::string customer;  // decoded UTF-8
  std::string edition;
  absl::Time issued;
  absl::Time expires;
  std::optional<absl::Time> not_before;
  int grace_days = 0;
  std::optional<int> max_gpus;        // distinct cards in the whole cluster
  std::vector<std::string> gpus;      // normalised, sorted, each once; empty: any GPU
  std::vector<std::string> features;  // in the order of the text

  bool operator==(const License&) const = default;
};

// The text without white space, for signing. InvalidArgument names the field that cannot be written and why.
absl::StatusOr<std::string> WriteText(const License& license);

// The fields of a text. Only for bytes whose signature holds; anything else is kMalformedText.
OrRefusal<License> ReadFields(std::string_view text);

// The key id of a text of the right shape (length, characters, `tf1;kid=...;`). It is the only thing that may be read
// before the signature holds.
OrRefusal<std::string> ReadKid(std::string_view text);

// 1 to 64 of A-Z a-z 0-9 . _ - : what kid, id, edition and features are made of.
bool IsToken(std::string_view text);

// A UUID as NVML prints it ("GPU-" and 8-4-4-4-12 hexadecimal digits, "MIG-" likewise), in any case, with white space
// around it or without the prefix "GPU-", becomes the one spelling that is compared. Anything else: nullopt.
std::optional<std::string> NormaliseGpuUuid(std::string_view uuid);

// The set of them, as License::gpus holds it. InvalidArgument names what is no UUID.
absl::StatusOr<std::vector<std::string>> NormaliseGpuUuids(const std::vector<std::string>& uuids);

// "2027-11-30T00:00:00Z" and nothing else.
std::optional<absl::Time> ParseInstant(std::string_view text);
std::string FormatInstant(absl::Time time);

}  // namespace tf::license
