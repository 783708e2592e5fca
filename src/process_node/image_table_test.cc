#include "process_node/image_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace tf::process_node {
namespace {

using testing::HasSubstr;

TEST(ImageTable, WithoutTag) {
  for (const auto& [image, bare] :
       {std::pair("a", "a"), std::pair("a:1", "a"), std::pair("r:5000/a", "r:5000/a"),
        std::pair("r:5000/a/b:1.2@sha256:00", "r:5000/a/b"), std::pair("a@sha256:00", "a")}) {
    EXPECT_EQ(WithoutTag(image), bare) << image;
  }
}

class ImageTableTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "image_table." + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    for (const char* name : {"a", "b", "any"}) std::filesystem::create_directories(folder_ + "/" + name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Program(const std::string& path) {
    const std::string file = absl::StrCat(folder_, "/", path);
    EXPECT_TRUE(WriteFile(file, "#!/bin/sh\n", 0755).ok());
    return file;
  }
  std::string folder_;
};

TEST_F(ImageTableTest, LongestNameDecides) {
  ImageTable table;
  ASSERT_TRUE(table.Add(absl::StrCat("worker=", folder_, "/b")).ok());
  ASSERT_TRUE(table.Add(absl::StrCat("fusion/worker=", folder_, "/a")).ok());
  for (const char* image : {"fusion/worker", "fusion/worker:1", "r.example:5000/x/fusion/worker:1@sha256:0"}) {
    EXPECT_THAT(table.Find(image).value_or(""), testing::EndsWith("/a")) << image;
  }
  EXPECT_THAT(table.Find("other/worker:2").value_or(""), testing::EndsWith("/b"));
  EXPECT_EQ(table.Find("myworker"), std::nullopt);
  EXPECT_EQ(table.Find("fusion/worker-2"), std::nullopt);
  ASSERT_TRUE(table.Add(absl::StrCat("*=", folder_, "/any")).ok());
  EXPECT_THAT(table.Find("myworker").value_or(""), testing::EndsWith("/any"));
  EXPECT_THAT(table.Find("worker").value_or(""), testing::EndsWith("/b"));
}

TEST_F(ImageTableTest, RulesThatAreNone) {
  ImageTable table;
  for (const char* rule : {"", "a", "=b", "a="}) EXPECT_TRUE(absl::IsInvalidArgument(table.Add(rule))) << rule;
  EXPECT_TRUE(absl::IsNotFound(table.Add(absl::StrCat("a=", folder_, "/nothing"))));
}

TEST_F(ImageTableTest, FindsPrograms) {
  const std::string worker = Program("a/worker"), tool = Program("b/tool");
  EXPECT_EQ(*FindProgram(folder_ + "/a", "x/worker:1", "", "", "/"), worker) << "the image's own";
  EXPECT_EQ(*FindProgram(folder_ + "/a", "x", "/usr/bin/worker", "", "/"), worker) << "wherever the image has it";
  EXPECT_EQ(*FindProgram(folder_ + "/a", "x", "tool", folder_ + "/any:" + folder_ + "/b", "/"), tool);
  EXPECT_EQ(*FindProgram(folder_ + "/a", "x", "./tool", "", folder_ + "/b"), folder_ + "/b/./tool");
  EXPECT_EQ(*FindProgram("/", "x", "/bin/sh", "", "/"), "/bin/sh");
  EXPECT_THAT(FindProgram(folder_ + "/a", "x", "nothing", "/bin", "/").status().message(),
              HasSubstr("\"nothing\": executable file not found in $PATH"));
  EXPECT_THAT(FindProgram(folder_ + "/a", "x", "/no/thing", "/bin", "/").status().message(),
              HasSubstr("no such file or directory"));
  EXPECT_THAT(FindProgram(folder_ + "/a", "x:1", "", "/bin", "/").status().message(),
              HasSubstr("no command specified"));
}

}  // namespace
}  // namespace tf::process_node
