#include "tfctl/completion.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::tfctl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    app_.add_flag("--version");
    CLI::App* rollout = app_.add_subcommand("rollout", "");
    CLI::App* status = rollout->add_subcommand("status", "");
    status->add_option("pool", pool_, "")->type_name("POOL");
    status->add_option("--component", component_, "")->check(CLI::IsMember({"hypervisor", "worker", "client"}));
    status->add_option("-o,--output", output_, "")->check(CLI::IsMember({"json", "yaml"}));
    status->add_option("--context", context_, "");
    status->add_flag("-w,--watch");
    rollout->add_subcommand("restart", "");
    app_.add_subcommand("run", "")->add_option("--vram", context_, "");
  }

  std::vector<std::string> After(const std::vector<std::string>& words) {
    return Completions(app_, words, [this] {
      ++asked_;
      return std::vector<std::string>{"pool/b", "pool/a"};
    });
  }

  CLI::App app_{"", "tfctl"};
  std::string pool_, component_, output_, context_;
  int asked_ = 0;
};

TEST_F(CompletionTest, CommandsThenArgumentsThenOptions) {
  EXPECT_THAT(After({""}), ElementsAre("rollout", "run"));
  EXPECT_THAT(After({}), ElementsAre("rollout", "run"));
  EXPECT_THAT(After({"ro"}), ElementsAre("rollout"));
  EXPECT_THAT(After({"rollout", ""}), ElementsAre("restart", "status"));
  EXPECT_THAT(After({"run", ""}), ElementsAre("--help", "--vram"));
  EXPECT_THAT(After({"rollout", "status", "--w"}), ElementsAre("--watch"));
  EXPECT_THAT(After({"--ver"}), ElementsAre("--version"));
}

TEST_F(CompletionTest, ValuesOfAnOption) {
  EXPECT_THAT(After({"rollout", "status", "--component", ""}), ElementsAre("client", "hypervisor", "worker"));
  EXPECT_THAT(After({"rollout", "status", "pool/a", "-o", "j"}), ElementsAre("json"));
  // A value is no argument, and a flag has none.
  EXPECT_THAT(After({"rollout", "status", "--component", "worker", "pool/"}), ElementsAre("pool/a", "pool/b"));
  EXPECT_THAT(After({"rollout", "status", "--watch", "pool/b"}), ElementsAre("pool/b"));
  EXPECT_THAT(After({"rollout", "status", "--context", ""}), IsEmpty());
}

TEST_F(CompletionTest, PoolsAreAskedForOnlyWhereOneIsDue) {
  EXPECT_THAT(After({"rollout", "status", ""}), ElementsAre("pool/a", "pool/b"));
  EXPECT_EQ(asked_, 1);
  EXPECT_THAT(After({"rollout", "status", "pool/a", "--comp"}), ElementsAre("--component"));
  EXPECT_THAT(After({"rollout", ""}), ElementsAre("restart", "status"));
  EXPECT_THAT(After({"unknown", "words", ""}), ElementsAre("rollout", "run"));
  EXPECT_EQ(asked_, 1);
}

}  // namespace
}  // namespace tf::tfctl
