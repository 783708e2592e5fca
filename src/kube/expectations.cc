#include "kube/expectations.h"

namespace tf::kube {

void Expectations::ExpectCreations(const Key& owner, int count) {
  std::lock_guard lock(mutex_);
  Pending& pending = pending_[owner];
  pending.creations += count;
  pending.since = clock_.Monotonic();
}

void Expectations::ExpectDeletions(const Key& owner, const std::vector<std::string>& uids) {
  std::lock_guard lock(mutex_);
  Pending& pending = pending_[owner];
  pending.deletions.insert(uids.begin(), uids.end());
  pending.since = clock_.Monotonic();
}

void Expectations::CreationSeen(const Key& owner) {
  std::lock_guard lock(mutex_);
  const auto found = pending_.find(owner);
  if (found == pending_.end() || found->second.creations == 0) return;  // somebody else's child, or after expiry
  if (--found->second.creations == 0 && found->second.deletions.empty()) pending_.erase(found);
}

void Expectations::DeletionSeen(const Key& owner, const std::string& uid) {
  std::lock_guard lock(mutex_);
  const auto found = pending_.find(owner);
  if (found == pending_.end()) return;
  found->second.deletions.erase(uid);
  if (found->second.creations == 0 && found->second.deletions.empty()) pending_.erase(found);
}

bool Expectations::Satisfied(const Key& owner) const {
  std::lock_guard lock(mutex_);
  const auto found = pending_.find(owner);
  return found == pending_.end() || clock_.Monotonic() - found->second.since >= expiry_;
}

void Expectations::Forget(const Key& owner) {
  std::lock_guard lock(mutex_);
  pending_.erase(owner);
}

}  // namespace tf::kube
