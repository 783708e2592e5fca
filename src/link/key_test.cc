#include "link/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace tf::link {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Write(const std::string& name, const std::string& text, mode_t mode) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::remove(path.c_str());
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

TEST(LinkKey, TextRoundTrip) {
  const auto key = LinkKey::Generate();
  ASSERT_TRUE(key.ok());
  const auto again = ParseLinkKey("  " + FormatLinkKey(*key) + "\r\n");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->bytes, key->bytes);
  EXPECT_NE(LinkKey::Generate()->bytes, key->bytes);
}

TEST(LinkKey, RefusesOtherTextWithoutPrintingIt) {
  for (const std::string& text : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
                                  std::string(66, 'a'), std::string(32, 'a') + " " + std::string(32, 'a')}) {
    const auto key = ParseLinkKey(text);
    ASSERT_FALSE(key.ok());
    if (!text.empty()) {
      EXPECT_THAT(std::string(key.status().message()), Not(HasSubstr(text)));
    }
  }
  EXPECT_TRUE(ParseLinkKey(std::string(64, 'F')).ok());
}

TEST(LinkKey, FileMustBePrivate) {
  const std::string hex(64, 'c');
  EXPECT_TRUE(ReadLinkKeyFile(Write("key_0600", hex + "\n", 0600)).ok());
  EXPECT_TRUE(ReadLinkKeyFile(Write("key_0400", hex, 0400)).ok());
  for (const mode_t mode : {0640, 0604, 0660, 0644, 0620, 0700}) {
    const auto key = ReadLinkKeyFile(Write("key_open", hex, mode));
    ASSERT_TRUE(absl::IsPermissionDenied(key.status())) << key.status();
    EXPECT_THAT(std::string(key.status().message()), HasSubstr("chmod 600"));
  }
  EXPECT_TRUE(absl::IsNotFound(ReadLinkKeyFile("/nonexistent/key").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadLinkKeyFile(::testing::TempDir()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadLinkKeyFile(Write("key_short", "abcd", 0600)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadLinkKeyFile(Write("key_long", std::string(5000, 'a'), 0600)).status()));
}

}  // namespace
}  // namespace tf::link
