#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace tf {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "file_test.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  size_t FilesIn(const std::string& folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  }

  std::string folder_;
};

TEST_F(FileTest, WritesMakesFoldersReplacesAndLeavesNothingElse) {
  const std::string path = folder_ + "/a/b/file";
  ASSERT_TRUE(WriteFile(path, "one", 0600).ok());
  EXPECT_EQ(*ReadFile(path, 3), "one");
  struct stat facts;
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_TRUE(WriteFile(path, "two", 0644).ok());
  EXPECT_EQ(*ReadFile(path, 3), "two");
  EXPECT_EQ(FilesIn(folder_ + "/a/b"), 1u);
}

TEST_F(FileTest, CreateDoesNotReplace) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(CreateFile(path, "one", 0600).ok());
  EXPECT_EQ(CreateFile(path, "two", 0600).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadFile(path, 100), "one");
  EXPECT_EQ(FilesIn(folder_), 1u);
}

TEST_F(FileTest, ReadingIsBoundedAndErrorsNameThePath) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(WriteFile(path, std::string(10000, 'x'), 0600).ok());
  EXPECT_EQ(ReadFile(path, 10000)->size(), 10000u);
  EXPECT_EQ(ReadFile(path, 9999).status().code(), absl::StatusCode::kResourceExhausted);
  const absl::Status missing = ReadFile(folder_ + "/none", 10).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.ToString().find(folder_ + "/none"), std::string::npos);
  EXPECT_FALSE(WriteFile(path + "/below", "x", 0600).ok());
}

}  // namespace
}  // namespace tf
