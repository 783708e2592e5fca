#include "standalone/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/process.h"
#include "standalone/temporary_folder.h"

namespace tf::standalone {
namespace {

using testing::HasSubstr;

TEST(DataFolder, IsForUsAlone) {
  const TemporaryFolder temporary;
  const std::string path = temporary.Path("some/where");
  const auto folder = DataFolder::Open(path);
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(DataFolder, TheSecondIsToldWhoHasIt) {
  const TemporaryFolder temporary;
  {
    const auto first = DataFolder::Open(temporary.path());
    ASSERT_TRUE(first.ok()) << first.status();
    const auto owner = OwnerOf(temporary.path());
    ASSERT_TRUE(owner.ok()) << owner.status();
    EXPECT_EQ(owner->pid, getpid());

    const auto second = DataFolder::Open(temporary.path());
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by process " + std::to_string(getpid())));
    EXPECT_THAT(std::string(second.status().message()), HasSubstr("tfctl down --data-dir " + temporary.path()));
  }
  const auto third = DataFolder::Open(temporary.path());
  EXPECT_TRUE(third.ok()) << third.status();
}

TEST(DataFolder, NobodyHasAFolderThatWasNeverUsedOrWhoseOwnerIsGone) {
  const TemporaryFolder temporary;
  EXPECT_TRUE(absl::IsNotFound(OwnerOf(temporary.path()).status()));
  ASSERT_TRUE(WriteFile(temporary.Path("lock"), "1 1 another-boot\n", 0600).ok());
  EXPECT_TRUE(absl::IsNotFound(OwnerOf(temporary.path()).status()));
  ASSERT_TRUE(WriteFile(temporary.Path("lock"), "", 0600).ok());
  EXPECT_TRUE(absl::IsNotFound(OwnerOf(temporary.path()).status()));
}

TEST(DataFolder, RefusesWhatANewerProgramWrote) {
  const TemporaryFolder temporary;
  ASSERT_TRUE(DataFolder::Open(temporary.path()).ok());
  EXPECT_EQ(ReadFile(temporary.Path("version"), 100).value_or(""), std::to_string(kDataVersion) + "\n");

  ASSERT_TRUE(WriteFile(temporary.Path("version"), std::to_string(kDataVersion + 1) + "\n", 0600).ok());
  const auto newer = DataFolder::Open(temporary.path());
  EXPECT_EQ(newer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("written by a newer program"));

  ASSERT_TRUE(WriteFile(temporary.Path("version"), "once upon a time", 0600).ok());
  const auto foreign = DataFolder::Open(temporary.path());
  EXPECT_THAT(std::string(foreign.status().message()), HasSubstr("holds no version number"));
}

TEST(DataFolder, EndsWhatAnOwnerThatWasKilledLeftBehind) {
  const TemporaryFolder temporary;
  auto left = Process::Start({.argv = {"sleep", "1000"}});
  auto replaced = Process::Start({.argv = {"sleep", "1000"}});
  auto innocent = Process::Start({.argv = {"sleep", "1000"}});
  ASSERT_TRUE(left.ok() && replaced.ok() && innocent.ok());
  {
    auto owner = DataFolder::Open(temporary.path());
    ASSERT_TRUE(owner.ok()) << owner.status();
    ASSERT_TRUE(owner->RecordChild("etcd", replaced->pid()).ok());
    ASSERT_TRUE(owner->RecordChild("etcd", left->pid()).ok());
  }
  // A number that now names another process, and half a line.
  auto record = RecordOf(innocent->pid());
  ASSERT_TRUE(record.ok());
  record->start -= 1;
  const std::string file = temporary.Path("processes");
  ASSERT_TRUE(WriteFile(file, ReadFile(file, 4096).value_or("") + FormatRecord(*record) + "\n12 3", 0600).ok());

  const auto next = DataFolder::Open(temporary.path());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->left_behind(), 1);
  EXPECT_EQ(left->Wait()->signal, SIGKILL);
  EXPECT_EQ(replaced->Wait(absl::ZeroDuration()), std::nullopt) << "only the last process of a name is ours";
  EXPECT_EQ(innocent->Wait(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(ReadFile(file, 4096).value_or("?"), "");
  for (auto* process : {&*replaced, &*innocent}) {
    EXPECT_TRUE(process->Signal(SIGKILL).ok());
    process->Wait();
  }
}

TEST(DataFolder, ClearsItsOwnRunAndNothingElse) {
  const TemporaryFolder temporary;
  const auto folder = DataFolder::Open(temporary.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  folder->ClearRun();  // there is none yet
  ASSERT_TRUE(WriteFile(folder->Path("run/socket"), "", 0600).ok());
  ASSERT_TRUE(WriteFile(folder->Path("etcd/data"), "", 0600).ok());
  folder->ClearRun();
  EXPECT_FALSE(std::filesystem::exists(folder->Path("run")));
  EXPECT_TRUE(std::filesystem::exists(folder->Path("etcd/data")));
}

TEST(DataFolder, SaysWhatToDoWhereNoFolderCanBe) {
  const TemporaryFolder temporary;
  ASSERT_TRUE(WriteFile(temporary.Path("file"), "", 0600).ok());
  const auto folder = DataFolder::Open(temporary.Path("file/folder"));
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("name another with --data-dir"));
}

}  // namespace
}  // namespace tf::standalone
