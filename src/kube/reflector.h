// When to list, when to watch, and how long to wait in between: the decisions of an informer, as a function of what
// became of its calls and of the time. No I/O, no clock, no thread; not thread-safe.
//
// The caller asks Next(), waits until the step's time, does it, reports what the server told meanwhile (Filled, Heard)
// and at the end Ended(), and asks again.
//
// All is read once: by a watch that begins with all objects (WatchList), where the server has that, else by a list.
// Afterwards a watch goes on where the last one ended, whatever ended it; all is read again only when the server says
// that it has forgotten what came since (410), or that it is behind us or does not understand where we are. The first
// list takes what the server has at hand ("0"), later ones ask for at least what we know, and for the newest ("") when
// the server has not got that; "" alone would read through to the server's store.
//
// Silence. A server sends a bookmark once a minute and two seconds before the end of a watch. A watch is asked to end
// after 5 to 10 minutes. When nothing at all came for `silence_limit` (under a minute), the stream may be dead or
// merely quiet; both look alike. The next one starts on a fresh connection and is asked to end before the limit, so
// that its bookmark or its end is due within the limit: silence now means that it is dead. Such short watches go on for
// as long as nothing happens; the first event makes them long again.
//
// Failures wait, with jitter, from 0.8 to 30 seconds, or as long as the server says if that is longer; after two quiet
// minutes they begin at 0.8 again.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tf::kube {

struct ReflectorOptions {
  absl::Duration first_delay = absl::Milliseconds(800);
  absl::Duration longest_delay = absl::Seconds(30);
  absl::Duration quiet_time = absl::Minutes(2);  // without a failure: delays begin at first_delay again
  absl::Duration shortest_watch = absl::Minutes(5);
  absl::Duration longest_watch = absl::Minutes(10);
  absl::Duration silence_limit = absl::Seconds(55);
  bool watch_list = true;  // false: list from the start
};

class Reflector {
 public:
  Reflector(ReflectorOptions options, uint64_t seed);

  struct Step {
    enum class Kind { kList, kWatchList, kWatch };
    Kind kind;
    absl::Duration at;                  // monotonic: not before
    std::string resource_version = {};  // as the request says it
    std::string cause = {};             // kList, kWatchList: why all is read: a word of the list below
    bool accept_older = false;          // kList, kWatchList: the server was set back, follow it
    absl::Duration server_timeout = {};
    absl::Duration silence_limit = {};
  };
  // Causes of reading all: "start"; "expired" (410); "ahead" (the server does not know so new a version yet, or tells
  // of older ones only); "refused" (it does not take our version for one); "behind" (it answered with an older list
  // than what we know). A read that failed is tried again under the cause that it had.

  Step Next(absl::Duration now);

  // During kList and kWatchList: all objects as of `version` are in the store.
  void Filled(uint64_t version, absl::Duration now);
  // During kWatch, and kWatchList once filled. `version`: the newest that the store has seen. Older than before: no
  // progress.
  void Heard(uint64_t version, bool bookmark, absl::Duration now);
  // The step is over. FailedPrecondition without an answer of the server's: the store refused an older list.
  void Ended(const absl::Status& status, absl::Duration now);

  bool filled() const { return filled_; }
  int64_t lists() const { return lists_; }  // kList and kWatchList that filled
  int64_t watches() const { return watches_; }
  int64_t failures() const { return failures_; }
  const std::string& last_error() const { return last_error_; }
  const std::map<std::string, int64_t>& causes() const { return causes_; }  // of lists()

 private:
  void FillEnded(const absl::Status& status, absl::Duration now);
  void WatchEnded(const absl::Status& status, absl::Duration now);
  void ReadAll(const std::string& cause, bool newest);
  void Fail(const absl::Status& status, absl::Duration now);
  absl::Duration Uniform(absl::Duration from, absl::Duration to);

  const ReflectorOptions options_;
  std::mt19937_64 random_;

  bool filled_ = false;
  uint64_t version_ = 0;
  std::string cause_ = "start";
  bool newest_ = false;     // read all with ""
  bool watch_list_;         // the server is thought to have it
  bool list_once_ = false;  // the next fill is a list
  int behind_ = 0;          // newest lists in a row that were older than what we know
  bool short_watch_ = false;

  Step step_ = {Step::Kind::kList, absl::ZeroDuration()};
  absl::Duration began_ = absl::ZeroDuration();
  absl::Duration last_heard_ = absl::ZeroDuration();
  int64_t heard_ = 0;      // events and bookmarks of this step
  int64_t events_ = 0;     // events of this step
  bool set_back_ = false;  // this watch told of older versions only
  bool progress_ = false;  // events came since all was read

  absl::Duration not_before_ = absl::ZeroDuration();
  absl::Duration delay_ = absl::ZeroDuration();  // the next, without jitter
  absl::Duration last_failure_ = -absl::InfiniteDuration();

  int64_t lists_ = 0;
  int64_t watches_ = 0;
  int64_t failures_ = 0;
  std::string last_error_;
  std::map<std::string, int64_t> causes_;
};

}  // namespace tf::kube
