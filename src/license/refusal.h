// Why a licence is refused: a stable reason code for programs and one sentence for people.
//
// The codes are public interface: scripts, alerts and the status of a pool compare them. The text says which step
// refused, what was found and what to do, and never contains the licence text or its signature.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tf::license {

enum class Reason {
  kMissingText,
  kMissingSignature,
  kMalformedText,
  kMalformedSignature,
  kUnknownKey,
  kBadSignature,
  kNotYetValid,
  kExpired,             // after the days of grace
  kGpuNotLicensed,      // the text names the UUIDs
  kGpuListUnavailable,  // the licence is bound to GPUs and the driver lists none
  kClockRolledBack,
};

// "missing_text", "bad_signature", ...
std::string_view ReasonCode(Reason reason);

struct Refusal {
  Reason reason;
  std::string text;
};

// A value, or the refusal that took its place.
template <typename T>
class OrRefusal {
 public:
  OrRefusal(T value) : content_(std::move(value)) {}
  OrRefusal(Refusal refusal) : content_(std::move(refusal)) {}
  OrRefusal(Reason reason, std::string text) : content_(Refusal{reason, std::move(text)}) {}

  bool ok() const { return std::holds_alternative<T>(content_); }
  const T& operator*() const { return std::get<T>(content_); }
  const T* operator->() const { return &std::get<T>(content_); }
  const Refusal& refusal() const { return std::get<Refusal>(content_); }

 private:
  std::variant<T, Refusal> content_;
};

}  // namespace tf::license
