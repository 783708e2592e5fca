#include "kube/reflector.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kube/error.h"

namespace tf::kube {

namespace {

// A clean end sooner than this, with nothing before it, is a server that does not mean to watch.
constexpr absl::Duration kShortestCleanWatch = absl::Seconds(1);
// What a short watch gets beyond its own end before it counts as dead.
constexpr absl::Duration kSlack = absl::Seconds(5);
constexpr absl::Duration kLongestRetryAfter = absl::Minutes(5);
// So many newest lists in a row that are older than what we know: no lagging replica, the server was set back.
constexpr int kBehindIsSetBack = 3;

bool IsAhead(const absl::Status& status) {
  const std::optional<ErrorDetails> details = DetailsOf(status);
  if (!details) return false;
  for (const Cause& cause : details->causes) {
    if (cause.reason == "ResourceVersionTooLarge") return true;
  }
  // Servers before 1.18 say it in words only.
  return std::string_view(status.message().data(), status.message().size()).find("Too large resource version") !=
         std::string_view::npos;
}

// The server answered, and it is not about the moment: asking again the same way brings the same.
bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return DetailsOf(status).has_value();
    default:
      return false;
  }
}

}  // namespace

Reflector::Reflector(ReflectorOptions options, uint64_t seed)
    : options_(options), random_(seed), watch_list_(options.watch_list), delay_(options.first_delay) {}

Reflector::Step Reflector::Next(absl::Duration now) {
  Step step{Step::Kind::kWatch, std::max(now, not_before_)};
  if (!filled_) {
    step.kind = watch_list_ && !list_once_ ? Step::Kind::kWatchList : Step::Kind::kList;
    step.cause = cause_;
    step.accept_older = behind_ >= kBehindIsSetBack;
  }
  if (filled_ || (version_ != 0 && !newest_)) {
    step.resource_version = absl::StrCat(version_);
  } else if (step.kind == Step::Kind::kList && !newest_) {
    step.resource_version = "0";
  }
  if (step.kind == Step::Kind::kWatch && short_watch_) {
    // Its bookmark comes two seconds before its end, both within the limit.
    step.server_timeout = Uniform(options_.silence_limit * 0.6, options_.silence_limit * 0.8);
    step.silence_limit = std::min(options_.silence_limit, step.server_timeout + kSlack);
  } else {
    step.server_timeout = Uniform(options_.shortest_watch, options_.longest_watch);
    step.silence_limit = options_.silence_limit;
  }
  step_ = step;
  began_ = last_heard_ = step.at;
  heard_ = events_ = 0;
  set_back_ = false;
  if (step.kind != Step::Kind::kList) ++watches_;
  return step;
}

void Reflector::Filled(uint64_t version, absl::Duration now) {
  ++lists_;
  ++causes_[step_.cause];
  filled_ = true;
  version_ = version;
  newest_ = list_once_ = false;
  behind_ = 0;
  progress_ = false;
  last_heard_ = now;
  ++heard_;
}

void Reflector::Heard(uint64_t version, bool bookmark, absl::Duration now) {
  last_heard_ = now;
  ++heard_;
  if (version < version_) {
    if (bookmark) set_back_ = true;
    return;
  }
  set_back_ = false;
  version_ = version;
  if (bookmark) return;
  ++events_;
  progress_ = true;
  short_watch_ = false;
}

void Reflector::Ended(const absl::Status& status, absl::Duration now) {
  not_before_ = now;
  filled_ ? WatchEnded(status, now) : FillEnded(status, now);
}

void Reflector::FillEnded(const absl::Status& status, absl::Duration now) {
  const bool by_watch = step_.kind == Step::Kind::kWatchList;
  if (by_watch && IsRefusal(status)) {
    watch_list_ = false;
    return;
  }
  if (status.ok()) {
    // A watch that ends in good order without having told all: a server that takes the options for unknown words.
    list_once_ = true;
    return Fail(absl::UnavailableError("the watch ended before it had told all objects"), now);
  }
  // The version that we asked for is gone or not there yet: what is newest surely is there.
  if ((IsExpired(status) || IsAhead(status)) && !newest_) {
    newest_ = true;
    return;
  }
  if (status.code() == absl::StatusCode::kFailedPrecondition && !DetailsOf(status)) {
    if (newest_) ++behind_;
    newest_ = true;
    cause_ = "behind";
  }
  if (by_watch && absl::IsDeadlineExceeded(status)) list_once_ = true;
  Fail(status, now);
}

void Reflector::WatchEnded(const absl::Status& status, absl::Duration now) {
  if (status.ok()) {
    if (set_back_ && events_ == 0) {
      ReadAll("ahead", false);
      return Fail(absl::UnavailableError("the server tells of resource versions before ours only"), now);
    }
    if (heard_ == 0 && now - began_ < kShortestCleanWatch) {
      Fail(absl::UnavailableError("the server ended a watch at once, without an event"), now);
    }
    return;
  }
  // An event is heard a little later than its last byte came, from which the limit counts.
  if (absl::IsDeadlineExceeded(status) && now - last_heard_ >= step_.silence_limit * 0.9) {
    if (!short_watch_) {
      short_watch_ = true;  // quiet or dead: the next one will tell
      return;
    }
    return Fail(status, now);
  }
  if (IsExpired(status)) {
    // Again without anything in between: waiting is all that may help.
    const bool again = !progress_ && lists_ > 1;
    ReadAll("expired", false);
    if (again) Fail(status, now);
    return;
  }
  if (IsAhead(status)) {
    ReadAll("ahead", false);
  } else if (IsRefusal(status)) {
    ReadAll("refused", true);
  }
  Fail(status, now);
}

void Reflector::ReadAll(const std::string& cause, bool newest) {
  filled_ = false;
  cause_ = cause;
  newest_ = newest;
}

void Reflector::Fail(const absl::Status& status, absl::Duration now) {
  ++failures_;
  last_error_ = std::string(status.message().data(), status.message().size());
  if (now - last_failure_ >= options_.quiet_time) delay_ = options_.first_delay;
  last_failure_ = now;
  absl::Duration wait = delay_ + Uniform(absl::ZeroDuration(), delay_);
  delay_ = std::min(delay_ * 2, options_.longest_delay);
  if (const std::optional<ErrorDetails> details = DetailsOf(status)) {
    wait = std::max(wait, std::min(details->retry_after, kLongestRetryAfter));
  }
  not_before_ = now + wait;
}

absl::Duration Reflector::Uniform(absl::Duration from, absl::Duration to) {
  return from + (to - from) * std::uniform_real_distribution<double>(0, 1)(random_);
}

}  // namespace tf::kube
