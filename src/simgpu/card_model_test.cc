#include "simgpu/card_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tf::simgpu {
namespace {

using testing::HasSubstr;

TEST(CardModel, ParsesLists) {
  auto list = ParseCards("A100-80G:2,t4 , T4:2", "");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->cards.size(), 5u);
  EXPECT_EQ(list->canonical, "A100-80G:2,T4:3");
  EXPECT_STREQ(list->cards[1].model->name, "NVIDIA A100-SXM4-80GB");
  EXPECT_STREQ(list->cards[4].model->name, "Tesla T4");
  std::set<std::string> uuids;
  uint32_t bus = 0;
  for (const Card& card : list->cards) {
    EXPECT_EQ(card.uuid.size(), 40u);
    EXPECT_TRUE(uuids.insert(card.uuid).second);
    EXPECT_GT(card.pci_bus, bus);
    bus = card.pci_bus;
  }
}

TEST(CardModel, TheSameEverywhereUnlessSeeded) {
  auto a = ParseCards("T4:2", ""), b = ParseCards("T4,T4", ""), c = ParseCards("T4:2", "x");
  EXPECT_EQ(a->identity, b->identity);
  EXPECT_EQ(a->cards[1].uuid, b->cards[1].uuid);
  EXPECT_NE(a->identity, c->identity);
  EXPECT_NE(a->cards[1].uuid, c->cards[1].uuid);
}

TEST(CardModel, BadSpecificationsAreNamed) {
  EXPECT_THAT(ParseCards("B100", "").status().message(),
              HasSubstr("unknown model \"B100\"; expected MODEL[:COUNT],… with"));
  EXPECT_THAT(ParseCards("", "").status().message(), HasSubstr("unknown model \"\""));
  EXPECT_THAT(ParseCards("T4:0", "").status().message(),
              HasSubstr("the count \"0\" of T4 is not a number from 1 to 32"));
  EXPECT_THAT(ParseCards("T4:1x", "").status().message(), HasSubstr("the count \"1x\""));
  EXPECT_THAT(ParseCards("T4:20,L4:13", "").status().message(), HasSubstr("more than 32 cards"));
  EXPECT_FALSE(ParseCards("T4:", "").ok());
  EXPECT_FALSE(ParseCards("T4,,L4", "").ok());
}

TEST(CardModel, Attributes) {
  auto list = ParseCards("T4", "");
  cuda::DeviceFacts facts = DescribeCard(list->cards[0]);
  EXPECT_EQ(facts.total_memory, 15360ull << 20);
  EXPECT_EQ(facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR], 7);
  EXPECT_EQ(facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR], 5);
  EXPECT_EQ(facts.attributes[CU_DEVICE_ATTRIBUTE_CLOCK_RATE], 1590000);
  EXPECT_EQ(facts.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT], 40);
}

}  // namespace
}  // namespace tf::simgpu
