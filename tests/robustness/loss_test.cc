// One side dies: the other notices within five seconds, gets an error or its memory back, and goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>

#include "worker_process.h"

namespace tf::tests {
namespace {

constexpr double kNoticed = 5.0;

class LossTest : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const std::string via = std::get<0>(GetParam());
  const std::string what = std::get<1>(GetParam());
};

TEST_P(LossTest, AProgramGetsAnErrorWhenItsWorkerDies) {
  WorkerProcess worker(via);
  Program program({TF_BUILD "/tests/victim", what}, worker.connection());
  ASSERT_EQ(program.Line(30), "ready");
  // In the middle of it: the worker has begun what comes after "ready".
  uint64_t before = worker.Await(10, [](auto&) { return true; })->calls;
  if (what == "copy") {
    ASSERT_TRUE(worker.Await(10, [&](auto& status) { return status.calls > before + 10; }).has_value());
  }
  double killed = Now();
  worker.Kill();
  std::optional<std::string> line = program.Line(kNoticed + 1);
  ASSERT_TRUE(line.has_value()) << "the program hangs";
  EXPECT_LT(Now() - killed, kNoticed);
  int error = 0;
  double after = 0;
  ASSERT_EQ(std::sscanf(line->c_str(), "error %d after %lf", &error, &after), 2) << *line;
  EXPECT_EQ(error, CUDA_ERROR_DEVICE_UNAVAILABLE);
  line = program.Line(1);
  ASSERT_TRUE(line.has_value());
  ASSERT_EQ(std::sscanf(line->c_str(), "then %d after %lf", &error, &after), 2) << *line;
  EXPECT_EQ(error, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_LT(after, 0.5);
}

TEST_P(LossTest, AWorkerGetsTheMemoryOfADeadProgramBack) {
  WorkerProcess worker(via);
  Program program({TF_BUILD "/tests/victim", what}, worker.connection());
  ASSERT_EQ(program.Line(30), "ready");
  ASSERT_TRUE(worker.Await(10, [](auto& status) { return status.memory_used >= 64 << 20; }).has_value());
  double killed = Now();
  program.Kill();
  auto back = worker.Await(kNoticed, [](auto& status) { return status.memory_used == 0 && status.sessions == 0; });
  EXPECT_TRUE(back.has_value()) << "memory used: " << worker.Status()->memory_used;
  EXPECT_LT(Now() - killed, kNoticed);
  // And it serves the next one.
  Program next({TF_BUILD "/tests/victim", "idle"}, worker.connection());
  EXPECT_EQ(next.Line(10), "ready");
}

INSTANTIATE_TEST_SUITE_P(
    All, LossTest, testing::Combine(testing::Values("shm", "tcp"), testing::Values("kernel", "copy", "synchronize")),
    [](auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

// A stopped worker is silent: neither data nor an end. A short pause is no failure.
TEST(SilenceTest, AShortPauseOfTheWorkerIsNoFailureAndALongOneIs) {
  WorkerProcess worker("shm");
  Program program({TF_BUILD "/tests/victim", "copy"}, worker.connection());
  ASSERT_EQ(program.Line(30), "ready");
  kill(worker.pid(), SIGSTOP);
  EXPECT_EQ(program.Line(2), std::nullopt);
  kill(worker.pid(), SIGCONT);
  uint64_t before = worker.Status()->calls;
  ASSERT_TRUE(worker.Await(10, [&](auto& status) { return status.calls > before; }).has_value());
  double stopped = Now();
  kill(worker.pid(), SIGSTOP);
  std::optional<std::string> line = program.Line(15);
  kill(worker.pid(), SIGCONT);
  ASSERT_TRUE(line.has_value()) << "the program hangs";
  EXPECT_TRUE(line->starts_with("error 46 ")) << *line;
  EXPECT_GT(Now() - stopped, 2);
}

}  // namespace
}  // namespace tf::tests
