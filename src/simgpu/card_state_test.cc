#include "simgpu/card_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace tf::simgpu {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
const std::atomic<bool> kNever{false};

// A second process, which does `work`, says so, and then holds what it has until it is killed.
class Holder {
 public:
  explicit Holder(const std::function<bool()>& work) {
    int pipe_ends[2];
    EXPECT_EQ(pipe(pipe_ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      char answer = work() ? 'y' : 'n';
      (void)!write(pipe_ends[1], &answer, 1);
      for (;;) pause();
    }
    close(pipe_ends[1]);
    char answer = 0;
    EXPECT_EQ(read(pipe_ends[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    close(pipe_ends[0]);
  }
  ~Holder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // Kills without collecting the remains.
  void Kill() {
    kill(pid_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, pid_, &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_;
};

class CardStateTest : public testing::Test {
 protected:
  CardStateTest() : list_(*ParseCards("T4:2", absl::StrCat("card_state_test ", getpid()))) {}
  ~CardStateTest() override {
    unlink(absl::StrCat("/dev/shm/tensor-fusion-sim-", geteuid(), "-", list_.identity).c_str());
  }
  std::shared_ptr<CardState> Open() {
    auto state = CardState::Open(list_);
    EXPECT_TRUE(state.ok()) << state.status();
    return *state;
  }
  CardList list_;
};

TEST_F(CardStateTest, BooksPerCard) {
  auto state = Open();
  auto member = *state->Join(1);
  EXPECT_TRUE(member->Reserve(15 * kGiB));
  EXPECT_FALSE(member->Reserve(1));
  EXPECT_FALSE(member->Reserve(~0ull));
  uint64_t free, total;
  member->Info(&free, &total);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, 15 * kGiB);
  member->Release(kGiB);
  CardUse use = Open()->Read(1);
  EXPECT_EQ(use.memory_used, 14 * kGiB);
  ASSERT_EQ(use.processes.size(), 1u);
  EXPECT_EQ(use.processes[0].pid, getpid());
  EXPECT_EQ(state->Read(0).memory_used, 0u);
  member.reset();
  EXPECT_EQ(state->Read(1).memory_used, 0u);
  EXPECT_TRUE(state->Read(1).processes.empty());
}

TEST_F(CardStateTest, TwoProcessesShareTheMemoryAndTheDeadHoldNone) {
  Holder other([&] {
    auto state = Open();
    auto* member = state->Join(0)->release();
    return member->Reserve(10 * kGiB);
  });
  auto state = Open();
  auto member = *state->Join(0);
  EXPECT_FALSE(member->Reserve(6 * kGiB));
  EXPECT_TRUE(member->Reserve(5 * kGiB));
  EXPECT_EQ(state->Read(0).processes.size(), 2u);
  other.Kill();
  EXPECT_TRUE(member->Reserve(10 * kGiB));
  EXPECT_EQ(state->Read(0).memory_used, 15 * kGiB);
}

TEST_F(CardStateTest, AKilledOwnerDoesNotBlockTheCard) {
  Holder other([&] {
    auto state = Open();
    auto* member = state->Join(0)->release();
    return member->Acquire(kNever);
  });
  auto state = Open();
  auto member = *state->Join(0);
  std::atomic<bool> cancel{true};
  EXPECT_FALSE(member->Acquire(cancel));
  other.Kill();
  EXPECT_TRUE(member->Acquire(kNever));
  member->Yield();
}

TEST_F(CardStateTest, ForkedChildLeavesTheParentsBooksAlone) {
  auto state = Open();
  auto member = *state->Join(0);
  ASSERT_TRUE(member->Reserve(kGiB));
  pid_t pid = fork();
  if (pid == 0) {
    member.reset();
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(state->Read(0).memory_used, kGiB);
}

TEST_F(CardStateTest, WaitersAreServedInOrder) {
  int order[2];
  ASSERT_EQ(pipe(order), 0);
  auto state = Open();
  auto member = *state->Join(0);
  ASSERT_TRUE(member->Acquire(kNever));
  std::vector<pid_t> children;
  for (char name : {'a', 'b', 'c', 'd'}) {
    pid_t pid = fork();
    if (pid == 0) {
      auto own_state = Open();
      auto own = *own_state->Join(0);
      bool good = own->Acquire(kNever) && write(order[1], &name, 1) == 1;
      own->Yield();
      own.reset();
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
    while (member->Waiting() < static_cast<int>(children.size())) std::this_thread::yield();
  }
  member->Yield();
  ASSERT_TRUE(member->Acquire(kNever));  // behind all of them
  member->Yield();
  for (pid_t pid : children) {
    int status;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  close(order[1]);
  std::string text(100, 0);
  text.resize(read(order[0], text.data(), text.size()));
  close(order[0]);
  EXPECT_EQ(text, "abcd");
}

TEST_F(CardStateTest, BusyTimeCountsOnlyWhileExecuting) {
  auto state = Open();
  auto member = *state->Join(0);
  EXPECT_EQ(state->Read(0).busy_ns, 0u);
  ASSERT_TRUE(member->Acquire(kNever));
  uint64_t first = state->Read(0).busy_ns;
  while (state->Read(0).busy_ns < first + 1'000'000) {
  }
  member->Yield();
  CardUse use = state->Read(0);
  EXPECT_GE(use.busy_ns, 1'000'000u);
  EXPECT_EQ(use.processes[0].busy_ns, use.busy_ns);
  EXPECT_EQ(state->Read(0).busy_ns, use.busy_ns);
  member.reset();
  EXPECT_EQ(state->Read(0).busy_ns, use.busy_ns);
}

}  // namespace
}  // namespace tf::simgpu
