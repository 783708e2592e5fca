#include "link/heartbeat.h"

#include <gtest/gtest.h>

namespace tf::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Action = Heartbeat::Action;

constexpr Deadline kStart = Deadline(seconds(1000));

// Ticks whenever asked to until `end`; the peer speaks each `peer_interval` while `alive` says so.
struct Simulation {
  Heartbeat heartbeat{HeartbeatOptions{}, kStart};
  Deadline now = kStart;
  int sent = 0;
  bool lost = false;

  void Run(Deadline end, milliseconds peer_interval) {
    Deadline next_word = peer_interval.count() > 0 ? now + peer_interval : kForever;
    while (now < end && !lost) {
      now = std::min({end, next_word, std::max(now, heartbeat.Next())});
      if (now >= next_word) {
        heartbeat.Heard(now);
        next_word += peer_interval;
      }
      const Action action = heartbeat.Tick(now);
      sent += action == Action::kSend;
      lost = action == Action::kLost;
    }
  }
};

TEST(Heartbeat, SendsEachSecond) {
  Simulation simulation;
  simulation.Run(kStart + seconds(60), milliseconds(900));
  EXPECT_FALSE(simulation.lost);
  EXPECT_GE(simulation.sent, 60);
  EXPECT_LE(simulation.sent, 61);
}

TEST(Heartbeat, SilenceForFiveSecondsIsLoss) {
  Simulation simulation;
  simulation.Run(kStart + seconds(60), milliseconds(0));
  EXPECT_TRUE(simulation.lost);
  EXPECT_EQ(simulation.now, kStart + seconds(5));
}

TEST(Heartbeat, ShortPauseOfThePeerIsNone) {
  Simulation simulation;
  simulation.Run(kStart + seconds(10), milliseconds(1000));
  simulation.Run(kStart + milliseconds(12'500), milliseconds(0));
  EXPECT_FALSE(simulation.lost);
  simulation.Run(kStart + seconds(30), milliseconds(1000));
  EXPECT_FALSE(simulation.lost);
}

TEST(Heartbeat, OwnPauseIsNoEvidence) {
  Simulation simulation;
  simulation.Run(kStart + seconds(10), milliseconds(1000));
  simulation.now = kStart + seconds(100);  // stopped for 90 s
  EXPECT_EQ(simulation.heartbeat.Tick(simulation.now), Action::kSend);
  simulation.Run(kStart + seconds(104), milliseconds(0));
  EXPECT_FALSE(simulation.lost);
  simulation.Run(kStart + seconds(110), milliseconds(0));
  EXPECT_TRUE(simulation.lost);
  EXPECT_EQ(simulation.now, kStart + seconds(105));
}

TEST(Heartbeat, EarlyTickDoesNothing) {
  Heartbeat heartbeat(HeartbeatOptions{}, kStart);
  EXPECT_EQ(heartbeat.Tick(kStart), Action::kSend);
  EXPECT_EQ(heartbeat.Tick(kStart), Action::kNothing);
  EXPECT_EQ(heartbeat.Tick(kStart + milliseconds(999)), Action::kNothing);
  EXPECT_EQ(heartbeat.Next(), kStart + seconds(1));
  EXPECT_EQ(heartbeat.Tick(kStart + seconds(1)), Action::kSend);
}

}  // namespace
}  // namespace tf::link
