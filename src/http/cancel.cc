#include "http/cancel.h"

#include <utility>

namespace tf::http {

// Wakers run with the mutex held: this is what makes the destructor of a Waker wait for them.
void Cancel::Now() {
  std::lock_guard lock(mutex_);
  if (cancelled_) return;
  cancelled_ = true;
  for (const auto& [id, wake] : wakers_) wake();
}

bool Cancel::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

Cancel::Waker::Waker(Cancel& cancel, std::function<void()> wake) : cancel_(cancel) {
  std::lock_guard lock(cancel_.mutex_);
  id_ = cancel_.next_++;
  if (cancel_.cancelled_) {
    wake();
  } else {
    cancel_.wakers_.emplace(id_, std::move(wake));
  }
}

Cancel::Waker::~Waker() {
  std::lock_guard lock(cancel_.mutex_);
  cancel_.wakers_.erase(id_);
}

}  // namespace tf::http
