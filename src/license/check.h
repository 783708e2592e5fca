// Parse -> Verify -> Evaluate: from two strings to "this worker may start", or to a refusal with a reason code.
//
// Pure functions of their arguments: no clock, no files, no network. They run in this order, and only the key id is
// read before the signature holds, so that nobody but the holder of a trusted private key decides what the rest of the
// text makes of this code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "license/keys.h"
#include "license/license.h"
#include "license/refusal.h"

namespace tf::license {

// A clock may be this much behind a time that is known to have passed.
inline constexpr absl::Duration kClockTolerance = absl::Hours(24);

// What was received, less white space and byte-order marks. Not genuine until Verify has said so.
struct SignedText {
  std::string text;
  std::string kid;
  Signature signature;
};

OrRefusal<SignedText> Parse(std::string_view text, std::string_view signature);
OrRefusal<License> Verify(const SignedText& signed_text, const Keyring& keyring);

enum class State { kValid, kGrace };

struct Verdict {
  State state;
  int grace_days_left = 0;  // kGrace: days begun, at least 1
};

// A time at which this node accepted a licence, and how a person makes the node forget it.
struct TrustedTime {
  absl::Time time;
  std::string how_to_clear;
};

struct KnownTimes {
  absl::Time build;
  std::optional<TrustedTime> last_trusted;
};

// The two halves of Evaluate. A gate calls them one after the other, because listing GPUs touches the driver and a
// licence without binding, or out of its dates, needs no list.
OrRefusal<Verdict> EvaluateDates(const License& license, absl::Time now, const KnownTimes& known);
std::optional<Refusal> EvaluateGpus(const License& license, const absl::StatusOr<std::vector<std::string>>& visible);

OrRefusal<Verdict> Evaluate(const License& license, absl::Time now,
                            const absl::StatusOr<std::vector<std::string>>& visible, const KnownTimes& known);

}  // namespace tf::license
