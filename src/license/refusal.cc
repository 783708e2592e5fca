#include "license/refusal.h"

namespace tf::license {

std::string_view ReasonCode(Reason reason) {
  switch (reason) {
    case Reason::kMissingText:
      return "missing_text";
    case Reason::kMissingSignature:
      return "missing_signature";
    case Reason::kMalformedText:
      return "malformed_text";
    case Reason::kMalformedSignature:
      return "malformed_signature";
    case Reason::kUnknownKey:
      return "unknown_key";
    case Reason::kBadSignature:
      return "bad_signature";
    case Reason::kNotYetValid:
      return "not_yet_valid";
    case Reason::kExpired:
      return "expired";
    case Reason::kGpuNotLicensed:
      return "gpu_not_licensed";
    case Reason::kGpuListUnavailable:
      return "gpu_list_unavailable";
    case Reason::kClockRolledBack:
      return "clock_rolled_back";
  }
  return "unknown_reason";
}

}  // namespace tf::license
