#include "gpu/card_names.h"

#include <gtest/gtest.h>

namespace tf::gpu {
namespace {

TEST(CardNames, AsCudaHasThem) {
  EXPECT_EQ(*VisibleDevices("gpu-6d0e-11aa"), "GPU-6d0e-11aa");
  EXPECT_EQ(*VisibleDevices("gpu-6d0e, mig-11f2"), "GPU-6d0e,MIG-11f2");
  for (const char* wrong : {"", "gpu", "gpu-", "-6d0e", "gpu-1,,gpu-2", "0,1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(VisibleDevices(wrong).status())) << wrong;
  }
}

}  // namespace
}  // namespace tf::gpu
