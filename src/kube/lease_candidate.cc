#include "kube/lease_candidate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::kube {
namespace {

constexpr char kNotTried[] = "no renewal was tried in time; was the process stopped, or the machine?";

std::string MicroTime(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()); }

}  // namespace

absl::Status Check(const LeaseSettings& s) {
  const absl::Duration zero = absl::ZeroDuration();
  if (s.duration < absl::Seconds(1) || s.duration != absl::Floor(s.duration, absl::Seconds(1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease duration ", absl::FormatDuration(s.duration), ": expected whole seconds, at least one"));
  }
  if (s.renew_deadline <= zero || s.retry <= zero || s.request_limit <= zero || s.jitter < 0) {
    return absl::InvalidArgumentError("lease: renew deadline, retry and request limit must be above zero");
  }
  if (s.renew_deadline <= s.retry * std::max(1.0, s.jitter)) {
    return absl::InvalidArgumentError(absl::StrCat("lease: renew deadline ", absl::FormatDuration(s.renew_deadline),
                                                   " leaves no time for a second try; retry is ",
                                                   absl::FormatDuration(s.retry)));
  }
  if (s.renew_deadline + s.request_limit + s.retry >= s.duration) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lease: renew deadline ", absl::FormatDuration(s.renew_deadline), " + request limit ",
        absl::FormatDuration(s.request_limit), " + retry ", absl::FormatDuration(s.retry),
        " must be less than the duration ", absl::FormatDuration(s.duration), ", or two could write at a time"));
  }
  return absl::OkStatus();
}

LeaseCandidate::LeaseCandidate(const LeaseSettings& settings, Key lease, std::string identity,
                               std::function<double()> random)
    : settings_(settings), key_(std::move(lease)), identity_(std::move(identity)), random_(std::move(random)) {}

std::string LeaseCandidate::holder() const {
  return lease_ ? std::string(Text(*lease_, "spec.holderIdentity")) : std::string();
}

bool LeaseCandidate::Leading(absl::Duration now) const { return leading_ && now < write_until(); }

void LeaseCandidate::Observe(std::optional<Json> lease, absl::Duration now) {
  if (lease) {
    if (!lease_ || *lease_ != *lease) changed_at_ = now;
    // A record without a duration is nobody's promise; ours is the safest guess.
    const int64_t seconds = Number(*lease, "spec.leaseDurationSeconds", 0);
    last_duration_ = seconds > 0 ? absl::Seconds(seconds) : settings_.duration;
    seen_ = true;
  } else if (lease_) {
    changed_at_ = now;
  }
  lease_ = std::move(lease);
}

Json LeaseCandidate::Claim(absl::Time wall) const {
  Json claim = lease_ ? *lease_
                      : Json(JsonObject{{"apiVersion", "coordination.k8s.io/v1"},
                                        {"kind", "Lease"},
                                        {"metadata", {{"namespace", key_.ns}, {"name", key_.name}}}});
  const bool ours = holder() == identity_;
  const int64_t transitions = Number(claim, "spec.leaseTransitions", 0);
  EnsureField(claim, "spec.holderIdentity") = identity_;
  EnsureField(claim, "spec.leaseDurationSeconds") = absl::ToInt64Seconds(settings_.duration);
  EnsureField(claim, "spec.renewTime") = MicroTime(wall);
  if (!ours) {
    EnsureField(claim, "spec.acquireTime") = MicroTime(wall);
    EnsureField(claim, "spec.leaseTransitions") = lease_ ? transitions + 1 : 0;
  }
  return claim;
}

LeaseCandidate::Step LeaseCandidate::Wait(absl::Duration until) const {
  return {.kind = Kind::kWait, .until = leading_ ? std::min(until, write_until()) : until};
}

LeaseCandidate::Step LeaseCandidate::Next(absl::Duration now, absl::Time wall) {
  pending_ = Kind::kWait;
  if (leading_) {
    if (now >= write_until()) {
      return {.kind = Kind::kLost,
              .reason = absl::StrCat("the lease could not be renewed for ", absl::FormatDuration(now - renewed_at_),
                                     ": ", trouble_)};
    }
    if (!must_read_ && lease_ && holder() != identity_) {
      return {.kind = Kind::kLost, .reason = absl::StrCat("the lease is now held by \"", holder(), "\"")};
    }
  }
  if (now < wait_until_) return Wait(wait_until_);

  absl::Duration limit = settings_.request_limit;
  if (leading_) limit = std::min(limit, write_until() - now);
  if (must_read_) {
    pending_ = Kind::kRead;
    return {.kind = Kind::kRead, .limit = limit};
  }
  const absl::Duration expires = changed_at_ + last_duration_;
  if (!lease_) {
    if (!seen_ || leading_ || now >= expires) {
      pending_ = Kind::kCreate;
      return {.kind = Kind::kCreate, .lease = Claim(wall), .limit = limit};
    }
  } else if (const std::string held_by = holder(); held_by.empty() || held_by == identity_ || now >= expires) {
    pending_ = Kind::kUpdate;
    return {.kind = Kind::kUpdate, .lease = Claim(wall), .limit = limit};
  }
  // Somebody else's: look again in a while, and as soon as it may have run out.
  must_read_ = true;
  wait_until_ = std::min(now + settings_.retry * (1 + settings_.jitter * random_()), std::max(expires, now));
  return Wait(wait_until_);
}

void LeaseCandidate::Answer(absl::Duration sent, absl::Duration now, const absl::StatusOr<Json>& answer) {
  const Kind asked = std::exchange(pending_, Kind::kWait);
  if (asked == Kind::kRead && (answer.ok() || absl::IsNotFound(answer.status()))) {
    must_read_ = false;
    Observe(answer.ok() ? std::optional<Json>(*answer) : std::nullopt, now);
    return;
  }
  if (answer.ok()) {
    Observe(*answer, now);
    must_read_ = holder() != identity_;  // a server that changes what we write is asked again
    if (!must_read_) {
      renewed_at_ = sent;
      trouble_ = kNotTried;
      // An answer that comes too late to begin with is only a reason to write again.
      leading_ = leading_ || now < write_until();
      if (!leading_) must_read_ = true;
    }
    wait_until_ = now + settings_.retry;
    return;
  }
  must_read_ = true;
  trouble_ = std::string(answer.status().message());
  const bool refused =
      absl::IsNotFound(answer.status()) || absl::IsAlreadyExists(answer.status()) || absl::IsAborted(answer.status());
  // The leader looks at once what has become of its record.
  wait_until_ = leading_ && refused ? now : now + settings_.retry * (leading_ ? 1 : 1 + settings_.jitter * random_());
}

void LeaseCandidate::Look() {
  if (leading_) return;
  must_read_ = true;
  wait_until_ = -absl::InfiniteDuration();
}

std::optional<LeaseCandidate::Step> LeaseCandidate::Release(absl::Duration now, absl::Time wall) {
  if (!Leading(now) || !lease_ || holder() != identity_) return std::nullopt;
  leading_ = false;
  Json record = *lease_;
  EnsureField(record, "spec.holderIdentity") = "";
  EnsureField(record, "spec.leaseDurationSeconds") = 1;
  EnsureField(record, "spec.renewTime") = MicroTime(wall);
  EnsureField(record, "spec.acquireTime") = MicroTime(wall);
  pending_ = Kind::kUpdate;
  return Step{.kind = Kind::kUpdate, .lease = std::move(record), .limit = settings_.request_limit};
}

}  // namespace tf::kube
