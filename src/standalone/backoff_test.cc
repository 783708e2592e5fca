#include "standalone/backoff.h"

#include <gtest/gtest.h>

namespace tf::standalone {
namespace {

TEST(Backoff, GrowsToTheLongestAndStartsAfreshAfterQuiet) {
  Backoff backoff({.first = absl::Seconds(1), .longest = absl::Seconds(30), .quiet = absl::Seconds(10)});
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(backoff.Next(absl::Seconds(9)), absl::Seconds(seconds));
  }
  EXPECT_EQ(backoff.Next(absl::Seconds(10)), absl::Seconds(1));
  EXPECT_EQ(backoff.Next(absl::ZeroDuration()), absl::Seconds(2));
}

}  // namespace
}  // namespace tf::standalone
