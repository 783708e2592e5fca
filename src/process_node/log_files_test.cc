#include "process_node/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;

class LogFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "log_files.", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Append(const std::string& text, const char* name = "log") {
    std::ofstream(absl::StrCat(folder_, "/", name), std::ios::app) << text;
  }
  std::string Read(const LogQuery& query) {
    std::string out;
    const absl::Status read = ReadLog(
        folder_, query, [&](std::string_view bytes) { return out += bytes, true; }, [] { return true; },
        [] { return false; });
    EXPECT_TRUE(read.ok()) << read;
    return out;
  }
  std::string folder_;
};

constexpr char kThree[] =
    "2026-11-30T17:00:01.5Z stdout F one\n2026-11-30T17:00:02Z stderr P tw\n2026-11-30T17:00:02Z stderr F o\n"
    "2026-11-30T17:00:03Z stdout F \n";

TEST(ParseLogLine, Table) {
  EXPECT_EQ(ParseLogLine("t stdout F a b")->text, "a b");
  EXPECT_TRUE(ParseLogLine("t stdout P a")->partial);
  EXPECT_EQ(ParseLogLine("t stdout F ")->text, "");
  for (const char* line : {"", "t", "t stdout", "t stdout F", "t stdout X a"}) EXPECT_FALSE(ParseLogLine(line)) << line;
}

TEST_F(LogFilesTest, WhatIsAskedFor) {
  Append(kThree);
  EXPECT_EQ(Read({}), "one\ntwo\n\n");
  EXPECT_EQ(Read({.timestamps = true}),
            "2026-11-30T17:00:01.5Z one\n2026-11-30T17:00:02Z two\n2026-11-30T17:00:03Z \n");
  EXPECT_EQ(Read({.tail_lines = 2}), "two\n\n");
  EXPECT_EQ(Read({.tail_lines = 0}), "");
  EXPECT_EQ(Read({.tail_lines = 100}), "one\ntwo\n\n");
  EXPECT_EQ(Read({.limit_bytes = 5}), "one\nt");
  EXPECT_EQ(Read({.since = absl::FromCivil(absl::CivilSecond(2026, 11, 30, 17, 0, 2), absl::UTCTimeZone())}),
            "two\n\n");
  EXPECT_EQ(Read({.stream = "Stderr"}), "two\n");
}

TEST_F(LogFilesTest, RotatedPartComesFirst) {
  Append("t stdout F old\n", "log.1");
  Append("t stdout F new\n");
  EXPECT_EQ(Read({}), "old\nnew\n");
  EXPECT_EQ(Read({.tail_lines = 1}), "new\n");
  EXPECT_EQ(Read({.tail_lines = 2}), "old\nnew\n");
}

TEST_F(LogFilesTest, FollowsAcrossRotation) {
  Append("t stdout F 1\n");
  std::string out;
  int step = 0;
  bool over = false;
  const absl::Status read = ReadLog(
      folder_, {.follow = true}, [&](std::string_view bytes) { return out += bytes, true; }, [&] { return over; },
      [&] {
        switch (step++) {
          case 0:
            Append("t stdout F 2\n");
            break;
          case 1:
            Append("t stdout F 3\n");
            fs::rename(folder_ + "/log", folder_ + "/log.1");
            Append("t stdout F 4\nt stdout F 5");
            break;
          case 2:
            Append("\n");
            over = true;
            break;
          default:
            ADD_FAILURE() << "it was over";
            return false;
        }
        return true;
      });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(out, "1\n2\n3\n4\n5\n");
}

TEST_F(LogFilesTest, NoLog) {
  EXPECT_TRUE(absl::IsNotFound(ReadLog(
      folder_ + "/none", {}, [](std::string_view) { return true; }, [] { return true; }, [] { return false; })));
}

TEST(ParseLogQuery, Table) {
  std::map<std::string, std::string> query;
  const auto parse = [&] {
    return ParseLogQuery(
        [&](std::string_view name) {
          const auto at = query.find(std::string(name));
          return at == query.end() ? std::string_view() : std::string_view(at->second);
        },
        absl::FromUnixSeconds(1000));
  };
  query = {{"follow", "true"}, {"tailLines", "5"}, {"sinceSeconds", "10"}, {"timestamps", "1"}, {"previous", "false"}};
  ASSERT_TRUE(parse().ok());
  EXPECT_TRUE(parse()->follow && parse()->timestamps && !parse()->previous);
  EXPECT_EQ(parse()->tail_lines, 5);
  EXPECT_EQ(parse()->since, absl::FromUnixSeconds(990));
  for (const auto& [name, value] : {std::pair("follow", "x"), std::pair("tailLines", "-1"),
                                    std::pair("limitBytes", "a"), std::pair("sinceTime", "yesterday")}) {
    query = {{name, value}};
    EXPECT_TRUE(absl::IsInvalidArgument(parse().status())) << name;
  }
}

}  // namespace
}  // namespace tf::process_node
