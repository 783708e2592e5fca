#include "remoting/worker/image_check.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "remoting/worker/module_cache.h"

namespace tf::remoting {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(ImageCheckTest, TextIsFineAndGarbageIsNot) {
  EXPECT_TRUE(IsSelfContained(Bytes(".version 8.0\n.target sm_75\n.address_size 64\n")));
  EXPECT_FALSE(IsSelfContained(Bytes("")));
  EXPECT_FALSE(IsSelfContained(Bytes(std::string_view("\x01\x02\x03\x04", 4))));
}

TEST(ImageCheckTest, WrappersAreRefusedBecauseTheyAreAPointer) {
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    uint64_t pointer = 0x1000, end = 0;
  } wrapper;
  EXPECT_FALSE(IsSelfContained(std::as_bytes(std::span(&wrapper, 1))));
}

TEST(ImageCheckTest, AContainerLongerThanItsBytesIsRefused) {
  struct {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1, header = 16;
    uint64_t size = 1 << 20;
  } container;
  EXPECT_FALSE(IsSelfContained(std::as_bytes(std::span(&container, 1))));
}

TEST(ImageCheckTest, AnElfWithTablesOrSectionsOutsideIsRefused) {
  std::vector<std::byte> image(sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Shdr));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shnum = 2;
  header.e_shentsize = sizeof(Elf64_Shdr);
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  auto check = [&] {
    std::memcpy(image.data(), &header, sizeof header);
    std::memcpy(image.data() + sizeof header + sizeof section, &section, sizeof section);
    return IsSelfContained(image);
  };
  EXPECT_TRUE(check());
  section.sh_offset = image.size();
  section.sh_size = 1;
  EXPECT_FALSE(check());
  section.sh_offset = ~uint64_t{0};
  EXPECT_FALSE(check());
  section = {};
  header.e_shoff = ~uint64_t{0} - 8;
  EXPECT_FALSE(check());
  header.e_shoff = sizeof header;
  header.e_shnum = 3;
  EXPECT_FALSE(check());
}

TEST(ModuleCacheTest, ForgetsWhatWasUsedLeastRecently) {
  ModuleCache cache(10);
  cache.Add("a", std::make_shared<std::string>(4, 'a'));
  cache.Add("b", std::make_shared<std::string>(4, 'b'));
  EXPECT_NE(cache.Find("a"), nullptr);
  cache.Add("c", std::make_shared<std::string>(4, 'c'));
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_NE(cache.Find("a"), nullptr);
  EXPECT_NE(cache.Find("c"), nullptr);
  cache.Add("big", std::make_shared<std::string>(11, 'x'));
  EXPECT_EQ(cache.Find("big"), nullptr);
}

}  // namespace
}  // namespace tf::remoting
