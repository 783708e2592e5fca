// The decisions of one candidate for a Lease: what to ask the server next, whether we lead, until when.
//
// No I/O and no clock of its own: LeaderLease does what Next says and tells the answer. The rules are client-go's, and
// stricter where a pause could hurt:
//  - Whether somebody else's lease has run out is judged by the time that has passed here since its record was last
//    seen to change. No time that another machine wrote is ever compared with ours.
//  - We lead from a write that the server has confirmed, and count from the moment before it was sent. Others count
//    from a later moment, so ours runs out first: Leading() ends `renew_deadline` after that moment, theirs begins
//    `duration` after it at the earliest.
//  - A write carries the resource version of what it was decided on.
//  - An answer that was lost counts for nothing: the record is read, and written again.
//  - A record that vanishes while we look is treated like one that changed: its holder may not know yet.
// "now" is Clock::Monotonic() everywhere. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::kube {

struct LeaseSettings {
  absl::Duration duration = absl::Seconds(15);        // whole seconds: how long others keep off
  absl::Duration renew_deadline = absl::Seconds(10);  // without a renewal for so long we have lost it
  absl::Duration retry = absl::Seconds(2);            // between renewals, and looks at somebody else's lease
  double jitter = 1.2;                                // looks are up to so many retries further apart
  absl::Duration request_limit = absl::Milliseconds(2500);
};

// Renew deadline, one request and one retry fit into the duration, or InvalidArgument.
absl::Status Check(const LeaseSettings& settings);

class LeaseCandidate {
 public:
  enum class Kind {
    kRead,    // get the Lease
    kCreate,  // `lease`
    kUpdate,  // `lease`, with its resource version
    kWait,    // nothing before `until`
    kLost,    // we led and do no longer: `reason`. Final.
  };
  struct Step {
    Kind kind;
    Json lease = nullptr;
    absl::Duration limit = absl::ZeroDuration();  // of the request
    absl::Duration until = absl::ZeroDuration();
    std::string reason = {};
  };

  // `settings` have passed Check. `identity` belongs to this process alone. `random` gives numbers in [0, 1).
  LeaseCandidate(const LeaseSettings& settings, Key lease, std::string identity, std::function<double()> random);

  // `wall` is only written into the record, for people.
  Step Next(absl::Duration now, absl::Time wall);
  // The answer to the last step, a request that was sent at `sent` or later. NotFound, AlreadyExists and Aborted
  // (Conflict) are what the server said; any other error may mean that it took effect.
  void Answer(absl::Duration sent, absl::Duration now, const absl::StatusOr<Json>& answer);
  // The record may have changed: without the lease, the next step is a look at it.
  void Look();
  // An update that gives the lease back, for the time after the last write of the leader; nullopt: there is nothing to
  // give. No Next after it.
  std::optional<Step> Release(absl::Duration now, absl::Time wall);

  bool Leading(absl::Duration now) const;
  // While leading: writes may begin before the first and must be over by the second.
  absl::Duration write_until() const { return renewed_at_ + settings_.renew_deadline; }
  absl::Duration over_by() const { return renewed_at_ + settings_.duration - settings_.retry; }
  // As last seen; "": nobody.
  std::string holder() const;

 private:
  void Observe(std::optional<Json> lease, absl::Duration now);
  Json Claim(absl::Time wall) const;
  Step Wait(absl::Duration until) const;

  const LeaseSettings settings_;
  const Key key_;
  const std::string identity_;
  const std::function<double()> random_;

  Kind pending_ = Kind::kWait;  // the request under way
  bool must_read_ = true;
  absl::Duration wait_until_ = -absl::InfiniteDuration();

  bool seen_ = false;          // a record has been seen at least once
  std::optional<Json> lease_;  // as last seen
  absl::Duration changed_at_ = absl::ZeroDuration();
  absl::Duration last_duration_ = absl::ZeroDuration();  // of the last record that was there

  bool leading_ = false;
  absl::Duration renewed_at_ = absl::ZeroDuration();  // when the last confirmed write was sent
  std::string trouble_;                               // of the last try to renew
};

}  // namespace tf::kube
