// Which Event objects a flood of happenings becomes: few.
//
//  - The same thing again (source, object, type, reason, action, note) within six minutes joins a series: the first
//    repetition is written to the Event, later ones are counted in memory and written every 30 minutes while it goes
//    on, and once six minutes after its end.
//  - More than ten notes for otherwise the same thing within ten minutes are folded into one series, "(combined from
//    similar events): ...": what changes from one note to the next does not make new Events for ever.
//  - Each object has 25 writes, and one more every five minutes. Beyond that new Events are dropped.
//
// What is remembered is bounded: the 4096 most recent of each. Pure: no I/O, the time is an argument
// (Clock::Monotonic() and the wall clock for what is written). Not thread-safe.
//
// Events are of the core group, v1, with the fields of both generations: `kubectl get events --sort-by=.lastTimestamp`
// orders by one that events.k8s.io/v1 does not let anybody set, and what reads events.k8s.io finds eventTime and
// series.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::kube {

struct Happening {
  // apiVersion, kind, namespace, name, uid, resourceVersion, fieldPath: as in an ObjectReference.
  Json regarding = nullptr;
  std::string type = {};    // "Normal" or "Warning"
  std::string reason = {};  // "FailedPlacement": at most 128 bytes, as the action
  std::string action = {};  // "Placing"
  std::string note = {};    // for people; cut at 1024 bytes
};

class EventCorrelator {
 public:
  struct Limits {
    int burst = 25;
    absl::Duration refill = absl::Minutes(5);
    int similar = 10;
    absl::Duration similar_within = absl::Minutes(10);
    absl::Duration series_end = absl::Minutes(6);
    absl::Duration heartbeat = absl::Minutes(30);
    size_t remembered = 4096;
  };

  // What is to be written. A patch holds nothing but how often and when last; `event` is the whole Event, for one that
  // the server has forgotten.
  struct Write {
    bool create;
    Json event;
    Json SeriesPatch() const;
  };
  struct Outcome {
    std::optional<Write> write = {};
    bool dropped = false;  // neither written nor counted
  };

  // `controller`: "tensor-fusion-operator"; `instance`: this replica.
  EventCorrelator(std::string controller, std::string instance, Limits limits);

  Outcome Add(const Happening& happening, absl::Duration now, absl::Time wall);
  // Series to be written, and forgets those that have ended. To be called about once a minute.
  std::vector<Write> Tick(absl::Duration now);

 private:
  // The most recently used entries by key.
  template <typename Value>
  class Recent {
   public:
    explicit Recent(size_t limit) : limit_(limit) {}
    Value& operator[](const std::string& key);
    Value* Find(const std::string& key);
    void Erase(const std::string& key);
    std::list<std::pair<std::string, Value>>& entries() { return entries_; }  // the latest first

   private:
    const size_t limit_;
    std::list<std::pair<std::string, Value>> entries_;
    absl::flat_hash_map<std::string, typename std::list<std::pair<std::string, Value>>::iterator> index_;
  };
  struct Series {
    Json event = nullptr;
    int64_t count = 0;
    int64_t written_count = 0;
    absl::Duration last = absl::ZeroDuration();
    absl::Time last_wall = absl::UnixEpoch();
    absl::Duration written = absl::ZeroDuration();
  };
  struct Similar {
    absl::flat_hash_set<std::string> notes;
    absl::Duration last = absl::ZeroDuration();
  };
  struct Bucket {
    std::optional<double> tokens;
    absl::Duration at = absl::ZeroDuration();
  };

  Json MakeEvent(const Happening& happening, const std::string& note, absl::Time wall);
  bool TakeToken(const std::string& object, absl::Duration now);
  static Write SeriesWrite(Series& series, absl::Duration now);

  const std::string controller_;
  const std::string instance_;
  const Limits limits_;
  Recent<Series> series_;
  Recent<Similar> similar_;
  Recent<Bucket> buckets_;
};

}  // namespace tf::kube
