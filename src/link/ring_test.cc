#include "link/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "link/shared_memory.h"

namespace tf::link {
namespace {

constexpr size_t kCapacity = 1280 << 10;  // holds one frame of the largest size, so that it wraps all the time
static_assert(kCapacity >= FrameSpace(kMaxFrame));

class RingTest : public ::testing::Test {
 protected:
  RingTest() {
    auto fd = CreateSharedMemory("ring-test", kCapacity);
    EXPECT_TRUE(fd.ok()) << fd.status();
    auto mapping = Mapping::Map(fd->get(), 0, kCapacity, /*mirrored=*/true);
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    mapping_ = *std::move(mapping);
    memory_ = {&control_, mapping_.bytes().data(), kCapacity};
  }

  RingControl control_{};
  Mapping mapping_;
  RingMemory memory_;
};

// Payload bytes that depend on the call and the position.
void Fill(std::byte* to, size_t size, uint64_t call) {
  uint64_t state = call * 0x9e3779b97f4a7c15 + 1;
  for (size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    to[i] = std::byte(state >> (i % 8 * 8));
  }
}

bool Matches(Bytes payload, uint64_t call) {
  std::vector<std::byte> expected(payload.size());
  Fill(expected.data(), expected.size(), call);
  return std::equal(payload.begin(), payload.end(), expected.begin());
}

size_t RandomSize(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return random() % (kMaxFrame + 1);
    case 2:
      return kMaxFrame - random() % 32;
    default:
      return random() % 5000;
  }
}

TEST_F(RingTest, RandomFramesComeOutAsTheyWentIn) {
  RingWriter writer(memory_);
  RingReader reader(memory_);
  std::mt19937_64 random(7);
  std::deque<FrameHeader> in_flight;
  uint64_t call = 0;
  uint64_t bytes = 0;
  while (bytes < 20 * kCapacity) {
    if (random() % 2 == 0) {
      const size_t size = RandomSize(random);
      const RingState state = writer.TryReserve(size);
      ASSERT_NE(state, RingState::kBroken);
      if (state == RingState::kReady) {
        const FrameHeader header{.size = static_cast<uint32_t>(size),
                                 .op = static_cast<uint16_t>(random()),
                                 .flags = static_cast<uint16_t>(random()),
                                 .call = call++};
        Fill(writer.room(), size, header.call);
        writer.Commit(header);
        in_flight.push_back(header);
        bytes += size;
      }
    } else {
      FrameHeader header;
      Bytes payload;
      const RingState state = reader.Next(header, payload);
      ASSERT_NE(state, RingState::kBroken);
      ASSERT_EQ(state == RingState::kReady, !in_flight.empty());
      if (state == RingState::kReady) {
        EXPECT_EQ(std::memcmp(&header, &in_flight.front(), sizeof(header)), 0);
        EXPECT_TRUE(Matches(payload, header.call));
        in_flight.pop_front();
      }
    }
  }
}

TEST_F(RingTest, AFrameOfAnySizeFitsAnEmptyRingWhereverItStands) {
  RingWriter writer(memory_);
  RingReader reader(memory_);
  std::mt19937_64 random(8);
  for (int i = 0; i < 300; ++i) {
    FrameHeader header;
    Bytes payload;
    ASSERT_EQ(writer.TryReserve(random() % 100'000), RingState::kReady);
    writer.Commit({.size = static_cast<uint32_t>(random() % 1000)});
    ASSERT_EQ(reader.Next(header, payload), RingState::kReady);
    ASSERT_EQ(reader.Next(header, payload), RingState::kWait);
    ASSERT_EQ(writer.TryReserve(kMaxFrame), RingState::kReady);
  }
}

TEST_F(RingTest, FullRingRefusesAndRecovers) {
  RingWriter writer(memory_);
  RingReader reader(memory_);
  int frames = 0;
  while (writer.TryReserve(1000) == RingState::kReady) {
    writer.Commit({.size = 1000});
    ++frames;
  }
  EXPECT_EQ(frames, static_cast<int>(kCapacity / FrameSpace(1000)));
  FrameHeader header;
  Bytes payload;
  for (int i = 0; i < frames; ++i) ASSERT_EQ(reader.Next(header, payload), RingState::kReady);
  EXPECT_EQ(writer.TryReserve(1000), RingState::kReady);
}

TEST_F(RingTest, ThreadsAgree) {
  constexpr uint64_t kFrames = 20'000;
  std::thread producer([&] {
    RingWriter writer(memory_);
    std::mt19937_64 random(9);
    for (uint64_t call = 0; call < kFrames; ++call) {
      const size_t size = random() % 600;
      while (writer.TryReserve(size) != RingState::kReady) std::this_thread::yield();
      Fill(writer.room(), size, call);
      writer.Commit({.size = static_cast<uint32_t>(size), .call = call});
    }
  });
  RingReader reader(memory_);
  for (uint64_t call = 0; call < kFrames;) {
    FrameHeader header;
    Bytes payload;
    const RingState state = reader.Next(header, payload);
    if (state == RingState::kWait) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(state, RingState::kReady);
    EXPECT_EQ(header.call, call);
    EXPECT_TRUE(Matches(payload, call));
    if (HasFailure()) break;
    ++call;
  }
  producer.join();
}

TEST_F(RingTest, ReaderSurvivesAnyTailAndHeader) {
  std::mt19937_64 random(10);
  int broken = 0;
  for (int i = 0; i < 200'000; ++i) {
    RingReader reader(memory_);
    FrameHeader header{.size = static_cast<uint32_t>(random() >> (32 + random() % 32)), .op = 1};
    std::memcpy(memory_.base, &header, sizeof(header));
    control_.tail.store(random() >> (random() % 64));
    for (int n = 0; n < 3; ++n) {
      Bytes payload;
      FrameHeader got;
      const RingState state = reader.Next(got, payload);
      broken += state == RingState::kBroken;
      if (state != RingState::kReady) break;
      ASSERT_LE(payload.size(), kMaxFrame);
      ASSERT_GE(payload.data(), memory_.base);
      ASSERT_LE(payload.data() + payload.size(), memory_.base + 2 * kCapacity);
    }
  }
  EXPECT_GT(broken, 1000);
}

TEST_F(RingTest, ReaderRefusesTailsAndHeadersOutOfRange) {
  const auto next = [&] {
    RingReader reader(memory_);
    FrameHeader header;
    Bytes payload;
    return reader.Next(header, payload);
  };
  control_.tail = kCapacity + 16;
  EXPECT_EQ(next(), RingState::kBroken);
  control_.tail = UINT64_MAX;  // behind the head
  EXPECT_EQ(next(), RingState::kBroken);
  control_.tail = 8;  // half a header
  EXPECT_EQ(next(), RingState::kBroken);
  control_.tail = 32;
  FrameHeader header{.size = 17};  // more than there is
  std::memcpy(memory_.base, &header, sizeof(header));
  EXPECT_EQ(next(), RingState::kBroken);
  header.size = kMaxFrame + 1;
  control_.tail = kCapacity;
  std::memcpy(memory_.base, &header, sizeof(header));
  EXPECT_EQ(next(), RingState::kBroken);
  header.size = UINT32_MAX;
  std::memcpy(memory_.base, &header, sizeof(header));
  EXPECT_EQ(next(), RingState::kBroken);
  header.size = kMaxFrame;
  std::memcpy(memory_.base, &header, sizeof(header));
  EXPECT_EQ(next(), RingState::kReady);
}

TEST_F(RingTest, WriterRefusesHeadsOutOfRange) {
  RingWriter writer(memory_);
  while (writer.TryReserve(kMaxFrame / 2) == RingState::kReady) writer.Commit({.size = kMaxFrame / 2});
  control_.head = 3 * kCapacity;  // beyond the tail
  EXPECT_EQ(writer.TryReserve(kMaxFrame / 2), RingState::kBroken);
  control_.head = UINT64_MAX;  // before the start
  EXPECT_EQ(writer.TryReserve(kMaxFrame / 2), RingState::kBroken);
  control_.head = 0;
  EXPECT_EQ(writer.TryReserve(kMaxFrame / 2), RingState::kWait);
}

}  // namespace
}  // namespace tf::link
