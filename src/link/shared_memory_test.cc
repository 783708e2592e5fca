#include "link/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

namespace tf::link {
namespace {

using ::testing::HasSubstr;

TEST(SharedMemory, NobodyCanShrinkIt) {
  auto fd = CreateSharedMemory("test", 10'000);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_NE(ftruncate(fd->get(), 0), 0);
  EXPECT_EQ(*CheckSharedMemory(fd->get()), 12'288u);
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedMemory, TwoMappingsSeeTheSameBytesAndTheMirrorWraps) {
  auto fd = CreateSharedMemory("test", 8192);
  ASSERT_TRUE(fd.ok());
  auto one = Mapping::Map(fd->get(), 0, 8192);
  auto two = Mapping::Map(fd->get(), 4096, 4096, /*mirrored=*/true);
  ASSERT_TRUE(one.ok() && two.ok());
  one->bytes()[4096] = std::byte{1};
  one->bytes()[8191] = std::byte{2};
  ASSERT_EQ(two->bytes().size(), 8192u);
  EXPECT_EQ(two->bytes()[0], std::byte{1});
  EXPECT_EQ(two->bytes()[4095], std::byte{2});
  EXPECT_EQ(two->bytes()[4096], std::byte{1});
}

TEST(SharedMemory, MoreThanTheMachineHasIsAClearError) {
  const auto fd = CreateSharedMemory("test", size_t{1} << 50);
  ASSERT_TRUE(absl::IsResourceExhausted(fd.status())) << fd.status();
  EXPECT_THAT(std::string(fd.status().message()), HasSubstr("smaller size"));
}

TEST(SharedMemory, RefusesWhatAPeerCouldShrink) {
  const Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSharedMemory(unsealed.get()).status()));
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSharedMemory(null.get()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSharedMemory(-1).status()));
}

}  // namespace
}  // namespace tf::link
