// Whether a link is up, and why it is not: shared by the channels of one connection. Any thread.
//
// The phase lies in a page that the kernel clears in forked children, so that one load answers "is it up" and "is it
// ours" together.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "absl/status/status.h"

namespace tf::link {

class LinkState {
 public:
  enum Phase : uint32_t {
    kForked = 0,    // this process is a child of the one that owns the link
    kUp = 1,        //
    kPeerGone = 2,  // what has arrived can still be received
    kDown = 3,
  };

  LinkState();
  ~LinkState();
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  Phase phase() const { return static_cast<Phase>(phase_->load(std::memory_order_acquire)); }

  // The phase only rises and the first reason stays; then everybody who waits is woken.
  void End(Phase phase, const absl::Status& why);
  // UNAVAILABLE with the reason; OK while the link is up.
  absl::Status status() const;

  // How to wake the waiters. Set before other threads know the link.
  void SetWaker(std::function<void()> waker) { waker_ = std::move(waker); }

 private:
  std::atomic<uint32_t>* phase_;
  std::function<void()> waker_;
  mutable std::mutex lock_;
  absl::Status why_;  // under lock_
};

}  // namespace tf::link
