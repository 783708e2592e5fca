#include "cuda/fatbin.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <memory>
#include <random>

namespace tf::cuda::fatbin {
namespace {

constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kArchitecture = 0x100000, kFamily = 0x200000;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

template <class T>
void Put(std::string* out, size_t at, T value) {
  std::memcpy(out->data() + at, &value, sizeof value);
}

// One entry, packed as its flags say.
std::string MakeEntry(uint16_t kind, uint32_t sm, uint64_t flags, std::string payload, uint32_t header = 64) {
  std::string entry(header, '\0');
  uint64_t unpacked = 0;
  uint32_t packed = 0;
  if (flags & kLz4) {
    std::string out(LZ4_compressBound(payload.size()), '\0');
    out.resize(LZ4_compress_default(payload.data(), out.data(), payload.size(), out.size()));
    unpacked = payload.size();
    packed = out.size();
    payload = out;
  } else if (flags & kZstd) {
    std::string out(ZSTD_compressBound(payload.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), payload.data(), payload.size(), 3));
    unpacked = payload.size();
    packed = out.size();
    payload = out;
  }
  payload.resize((payload.size() + 7) / 8 * 8);
  Put<uint16_t>(&entry, 0, kind);
  Put<uint16_t>(&entry, 2, 0x0101);
  Put<uint32_t>(&entry, 4, header);
  Put<uint64_t>(&entry, 8, payload.size());
  Put<uint32_t>(&entry, 0x10, packed);
  Put<uint16_t>(&entry, 0x1a, 9);
  Put<uint32_t>(&entry, 0x1c, sm);
  Put<uint64_t>(&entry, 0x28, flags | 1);
  Put<uint64_t>(&entry, 0x38, unpacked);
  return entry + payload;
}

std::string MakeContainer(const std::string& entries) {
  std::string header(16, '\0');
  Put<uint32_t>(&header, 0, 0xBA55ED50);
  Put<uint16_t>(&header, 4, 1);
  Put<uint16_t>(&header, 6, 16);
  Put<uint64_t>(&header, 8, entries.size());
  return header + entries;
}

std::string Ptx(const std::string& name) {
  return ".version 9.0\n.target sm_75\n// " + name + std::string(300, 'x') + "\n";
}

std::string Chosen(const std::string& image, uint32_t sm) {
  absl::StatusOr<std::string> ptx = ChoosePtx(Bytes(image), sm);
  return ptx.ok() ? *ptx : std::string(ptx.status().message());
}

TEST(Fatbin, SniffsByContent) {
  EXPECT_EQ(Sniff(Bytes(Ptx("a"))), ImageKind::kPtx);
  EXPECT_EQ(Sniff(Bytes("\xef\xbb\xbf.version 8.0")), ImageKind::kPtx);
  EXPECT_EQ(Sniff(Bytes("//\n// Generated\n/* a * b **/ \r\n\t.version 8.0")), ImageKind::kPtx);
  EXPECT_EQ(Sniff(Bytes(MakeContainer(""))), ImageKind::kFatbin);
  for (const char* text : {"", " ", "/", "//", "/*", "/* *", "hello", "/.version", "#include"}) {
    EXPECT_EQ(Sniff(Bytes(text)), ImageKind::kUnknown) << text;
    EXPECT_FALSE(TrustedImage(text).ok()) << text;
  }
}

TEST(Fatbin, TrustedLengths) {
  std::string text = Ptx("a");
  EXPECT_EQ(TrustedImage(text.c_str())->size(), text.size());
  std::string container = MakeContainer(MakeEntry(1, 75, 0, text));
  EXPECT_EQ(TrustedImage(container.data())->size(), container.size());
  struct {
    uint32_t magic = 0x466243B1, version = 1;
    const void* container;
    const void* more = nullptr;
  } wrapper;
  wrapper.container = container.data();
  absl::StatusOr<std::span<const std::byte>> image = TrustedImage(&wrapper);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(static_cast<const void*>(image->data()), container.data());
  EXPECT_EQ(image->size(), container.size());
  wrapper.container = text.data();
  EXPECT_FALSE(TrustedImage(&wrapper).ok());
  EXPECT_FALSE(TrustedImage(nullptr).ok());
}

TEST(Fatbin, ElfLengthFromItsHeaders) {
  std::string elf(2000, '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = 200;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = 600;
  section.sh_size = 123;
  std::memcpy(elf.data(), &header, sizeof header);
  std::memcpy(elf.data() + 200 + sizeof section, &section, sizeof section);
  EXPECT_EQ(TrustedImage(elf.data())->size(), 723u);
  section.sh_type = SHT_NOBITS;
  std::memcpy(elf.data() + 200 + sizeof section, &section, sizeof section);
  EXPECT_EQ(TrustedImage(elf.data())->size(), 200 + 2 * sizeof section);
  EXPECT_EQ(ChoosePtx(Bytes(elf), 80).status().code(), absl::StatusCode::kNotFound);
}

TEST(Fatbin, ChoosesTheHighestPtxThatTheCardTakes) {
  std::string image =
      MakeContainer(MakeEntry(1, 75, 0, Ptx("75")) + MakeEntry(2, 80, 0, "code") +
                    MakeEntry(1, 80, kZstd, Ptx("80"), 72) + MakeEntry(1, 90, kLz4, Ptx("90"), 144) +
                    MakeEntry(1, 90, kArchitecture, Ptx("90a")) + MakeEntry(1, 100, kFamily, Ptx("100f")));
  EXPECT_EQ(List(Bytes(image))->size(), 6u);
  EXPECT_EQ(Chosen(image, 75), Ptx("75"));
  EXPECT_EQ(Chosen(image, 86), Ptx("80"));
  EXPECT_EQ(Chosen(image, 90), Ptx("90a"));
  EXPECT_EQ(Chosen(image, 103), Ptx("100f"));
  EXPECT_EQ(Chosen(image, 120), Ptx("90"));
  EXPECT_EQ(ChoosePtx(Bytes(image), 70).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Chosen(image, 70).find("PTX 100f"), std::string::npos);
}

TEST(Fatbin, OnlyMachineCodeIsNotFound) {
  EXPECT_EQ(ChoosePtx(Bytes(MakeContainer(MakeEntry(2, 80, 0, "code"))), 80).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ChoosePtx(Bytes("garbage"), 80).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Fatbin, SizesAreBounded) {
  std::string entry = MakeEntry(1, 75, kZstd, Ptx("a"));
  Put<uint64_t>(&entry, 0x38, uint64_t{1} << 40);
  EXPECT_EQ(ChoosePtx(Bytes(MakeContainer(entry)), 75).status().code(), absl::StatusCode::kResourceExhausted);
  entry = MakeEntry(1, 75, kLz4, Ptx("a"));
  Put<uint64_t>(&entry, 0x38, kMaxPtxBytes);
  EXPECT_EQ(ChoosePtx(Bytes(MakeContainer(entry)), 75).status().code(), absl::StatusCode::kInvalidArgument);
}

// Every single damage ends in an answer. The copy has no byte to spare, so that ASan sees a read beyond the end.
TEST(Fatbin, DamageIsSurvived) {
  std::string good = MakeContainer(MakeEntry(1, 75, kZstd, Ptx("a")) + MakeEntry(1, 80, kLz4, Ptx("b")));
  auto check = [](const std::string& image) {
    std::unique_ptr<std::byte[]> exact(new std::byte[image.size()]);
    std::memcpy(exact.get(), image.data(), image.size());
    std::span<const std::byte> bytes(exact.get(), image.size());
    if (absl::StatusOr<std::vector<Entry>> entries = List(bytes); entries.ok()) {
      for (const Entry& entry : *entries) (void)Unpack(entry);
    }
    (void)ChoosePtx(bytes, 90);
  };
  for (size_t size = 0; size < good.size(); ++size) check(good.substr(0, size));
  std::mt19937 random(7);
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit : {0, 7, static_cast<int>(random() % 8)}) {
      std::string bad = good;
      bad[at] ^= static_cast<char>(1 << bit);
      check(bad);
    }
  }
}

}  // namespace
}  // namespace tf::cuda::fatbin
