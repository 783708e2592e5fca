#include "tfctl/follow.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::tfctl {

Follower::Follower(kube::Client& client, const kube::Resource& resource, const std::string& name)
    : informer_(client, resource, {.field_selector = absl::StrCat("metadata.name=", name)}) {
  informer_.AddHandler(
      {.added = [this](const kube::ObjectPtr& object, bool) { Set(object, false); },
       .updated = [this](const kube::ObjectPtr&, const kube::ObjectPtr& object) { Set(object, false); },
       .deleted = [this](const kube::ObjectPtr& last, bool) { Set(last, true); }});
  informer_.Start();
}

Follower::Look Follower::Next(absl::Duration limit) {
  Clock& clock = RealClock();
  std::unique_lock lock(mutex_);
  clock.WaitUntil(lock, heard_, clock.Monotonic() + limit, [this] { return latest_.changed; });
  Look look = latest_;
  latest_.changed = false;
  return look;
}

void Follower::Set(kube::ObjectPtr object, bool deleted) {
  const std::lock_guard lock(mutex_);
  latest_ = {.object = std::move(object), .deleted = deleted, .changed = true};
  heard_.notify_all();
}

}  // namespace tf::tfctl
