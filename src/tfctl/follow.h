// One object of the API server, followed by a watch: no request is repeated while nothing happens.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/informer.h"

namespace tf::tfctl {

class Follower {
 public:
  Follower(kube::Client& client, const kube::Resource& resource, const std::string& name);

  struct Look {
    kube::ObjectPtr object = {};  // the newest state; null: not heard of yet
    bool deleted = false;
    bool changed = false;  // since the last look
  };
  // At the next change, or when `limit` is over; at once when something changed since the last look.
  Look Next(absl::Duration limit);

 private:
  void Set(kube::ObjectPtr object, bool deleted);

  std::mutex mutex_;
  std::condition_variable heard_;
  Look latest_;
  kube::Informer informer_;  // last: its thread uses the others
};

}  // namespace tf::tfctl
