// Ends a blocking call from another thread.
//
// The one who may cancel keeps the Cancel; the one who blocks registers a way to be woken for as long as it blocks.
// Cancelled once, it stays cancelled: a call that starts afterwards returns at once. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>

namespace tf::http {

class Cancel {
 public:
  void Now();
  bool cancelled() const;

  // While it lives, `wake` is called (once, from the thread that cancels, or at once if cancelled already). After its
  // destructor `wake` is not running and will not run.
  class Waker {
   public:
    Waker(Cancel& cancel, std::function<void()> wake);
    ~Waker();
    Waker(const Waker&) = delete;
    Waker& operator=(const Waker&) = delete;

   private:
    Cancel& cancel_;
    int id_;
  };

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  int next_ = 0;
  std::map<int, std::function<void()>> wakers_;
};

}  // namespace tf::http
