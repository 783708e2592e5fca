#include "kube/expectations.h"

#include "gtest/gtest.h"

namespace tf::kube {
namespace {

const Key kOwner{"ns", "owner"};

TEST(Expectations, NothingExpectedIsSatisfied) {
  SimulatedClock clock;
  EXPECT_TRUE(Expectations(clock).Satisfied(kOwner));
}

TEST(Expectations, WaitsForEachCreation) {
  SimulatedClock clock;
  Expectations expected(clock);
  expected.ExpectCreations(kOwner, 2);
  EXPECT_FALSE(expected.Satisfied(kOwner));
  EXPECT_TRUE(expected.Satisfied({"ns", "another"}));
  expected.CreationSeen(kOwner);
  EXPECT_FALSE(expected.Satisfied(kOwner));
  expected.CreationSeen(kOwner);
  EXPECT_TRUE(expected.Satisfied(kOwner));
  expected.CreationSeen(kOwner);  // one that somebody else made
  expected.ExpectCreations(kOwner, 1);
  EXPECT_FALSE(expected.Satisfied(kOwner)) << "creations seen before do not count ahead";
}

TEST(Expectations, ADeletionSeenTwiceCountsOnce) {
  SimulatedClock clock;
  Expectations expected(clock);
  expected.ExpectDeletions(kOwner, {"a", "b"});
  expected.DeletionSeen(kOwner, "a");
  expected.DeletionSeen(kOwner, "a");
  EXPECT_FALSE(expected.Satisfied(kOwner));
  expected.DeletionSeen(kOwner, "b");
  EXPECT_TRUE(expected.Satisfied(kOwner));
}

TEST(Expectations, BothKindsMustBeSeen) {
  SimulatedClock clock;
  Expectations expected(clock);
  expected.ExpectDeletions(kOwner, {"a"});
  expected.ExpectCreations(kOwner, 1);
  expected.DeletionSeen(kOwner, "a");
  EXPECT_FALSE(expected.Satisfied(kOwner));
  expected.CreationSeen(kOwner);
  EXPECT_TRUE(expected.Satisfied(kOwner));
}

TEST(Expectations, AnEventThatNeverComesIsNotWaitedForForEver) {
  SimulatedClock clock;
  Expectations expected(clock);
  expected.ExpectCreations(kOwner, 1);
  clock.Advance(absl::Minutes(4));
  expected.ExpectCreations(kOwner, 1);  // begins anew
  clock.Advance(absl::Minutes(4));
  EXPECT_FALSE(expected.Satisfied(kOwner));
  clock.Advance(absl::Minutes(1));
  EXPECT_TRUE(expected.Satisfied(kOwner));
}

TEST(Expectations, AnOwnerThatIsGoneIsForgotten) {
  SimulatedClock clock;
  Expectations expected(clock);
  expected.ExpectCreations(kOwner, 1);
  expected.Forget(kOwner);
  EXPECT_TRUE(expected.Satisfied(kOwner));
}

}  // namespace
}  // namespace tf::kube
