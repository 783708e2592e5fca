#include "http/cancel.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace tf::http {
namespace {

TEST(Cancel, WakesEachOnceAndStaysCancelled) {
  Cancel cancel;
  int woken = 0, gone = 0;
  Cancel::Waker waker(cancel, [&] { ++woken; });
  {
    Cancel::Waker short_lived(cancel, [&] { ++gone; });
  }
  EXPECT_FALSE(cancel.cancelled());
  cancel.Now();
  cancel.Now();
  EXPECT_TRUE(cancel.cancelled());
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(gone, 0);
  int late = 0;
  Cancel::Waker after(cancel, [&] { ++late; });
  EXPECT_EQ(late, 1);
}

// After its destructor `wake` does not run: what it uses may be gone.
TEST(Cancel, DestructorWaitsForWake) {
  for (int round = 0; round < 200; ++round) {
    Cancel cancel;
    std::thread other([&] { cancel.Now(); });
    {
      auto counter = std::make_unique<int>(0);
      Cancel::Waker waker(cancel, [at = counter.get()] { ++*at; });
    }
    other.join();
  }
}

}  // namespace
}  // namespace tf::http
