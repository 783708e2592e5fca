#include "link/link_state.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tf::link {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

LinkState::LinkState() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) std::abort();  // as an allocation of this size would
  madvise(page, kPage, MADV_WIPEONFORK);
  phase_ = new (page) std::atomic<uint32_t>(kUp);
}

LinkState::~LinkState() { munmap(phase_, kPage); }

void LinkState::End(Phase phase, const absl::Status& why) {
  if (this->phase() == kForked) return;
  {
    std::lock_guard lock(lock_);
    if (phase_->load(std::memory_order_relaxed) == kUp) {
      why_ = absl::UnavailableError(why.ok() ? "the link was closed" : why.message());
    }
    if (phase > phase_->load(std::memory_order_relaxed)) phase_->store(phase, std::memory_order_release);
  }
  if (waker_) waker_();
}

absl::Status LinkState::status() const {
  // The child must not touch the lock: a thread of the parent may have held it at the fork.
  if (phase() == kForked) {
    return absl::UnavailableError("the link belongs to the parent process and cannot be used after fork()");
  }
  std::lock_guard lock(lock_);
  return why_;
}

}  // namespace tf::link
