#include "cuda/fatbin.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tf::cuda::fatbin {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr size_t kContainerHeader = 16;
constexpr size_t kEntryHeader = 64;
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagArchitecture = 0x100000, kFlagFamily = 0x200000;

struct Wrapper {
  uint32_t magic, version;
  const void* container;
  const void* more;
};

template <class T>
T Load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Whether the text, up to a NUL or the end, is white space and comments followed by a directive. `at(i)` gives
// character i, or NUL at the end; it is never called beyond the first NUL.
template <class At>
bool StartsLikePtx(At&& at) {
  size_t i = 0;
  if (at(0) == '\xef') {  // a byte order mark
    if (at(1) != '\xbb' || at(2) != '\xbf') return false;
    i = 3;
  }
  for (;;) {
    while (IsSpace(at(i))) ++i;
    if (at(i) != '/') break;
    if (at(i + 1) == '/') {
      while (at(i) != '\n' && at(i) != '\0') ++i;
    } else if (at(i + 1) == '*') {
      i += 2;
      while (at(i) != '\0' && !(at(i) == '*' && at(i + 1) == '/')) ++i;
      if (at(i) == '\0') return false;
      i += 2;
    } else {
      return false;
    }
  }
  return at(i) == '.';
}

bool MagicIs(const unsigned char* p, uint32_t magic) {
  // Byte by byte: PTX text may be shorter than four bytes.
  for (int i = 0; i < 4; ++i) {
    if (p[i] != static_cast<unsigned char>(magic >> (8 * i))) return false;
  }
  return true;
}

// The length of an ELF file from the ends of its headers, sections and segments. The offsets are the program's own.
size_t ElfSize(const unsigned char* elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf, sizeof header);
  uint64_t end = sizeof header;
  if (header.e_shoff != 0 && header.e_shentsize >= sizeof(Elf64_Shdr)) {
    uint64_t count = header.e_shnum;
    for (uint64_t i = 0; i < count || (i == 0 && header.e_shnum == 0); ++i) {
      Elf64_Shdr section;
      std::memcpy(&section, elf + header.e_shoff + i * header.e_shentsize, sizeof section);
      if (i == 0 && count == 0) count = section.sh_size;  // more sections than e_shnum can say
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL) {
        end = std::max<uint64_t>(end, section.sh_offset + section.sh_size);
      }
    }
    end = std::max<uint64_t>(end, header.e_shoff + count * header.e_shentsize);
  }
  if (header.e_phoff != 0 && header.e_phentsize >= sizeof(Elf64_Phdr)) {
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      std::memcpy(&segment, elf + header.e_phoff + i * header.e_phentsize, sizeof segment);
      end = std::max<uint64_t>(end, segment.p_offset + segment.p_filesz);
    }
    end = std::max<uint64_t>(end, header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize);
  }
  return end;
}

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the fatbin is damaged: ", what));
}

bool Fits(const Entry& entry, uint32_t sm) {
  if (entry.architecture) return entry.sm == sm;
  if (entry.family) return entry.sm <= sm && entry.sm / 10 == sm / 10;
  return entry.sm <= sm;
}

std::string Text(std::string_view bytes) { return std::string(bytes.substr(0, bytes.find('\0'))); }

}  // namespace

ImageKind Sniff(std::span<const std::byte> image) {
  auto bytes = reinterpret_cast<const unsigned char*>(image.data());
  if (image.size() >= sizeof(Wrapper) && MagicIs(bytes, kWrapperMagic)) return ImageKind::kWrapper;
  if (image.size() >= kContainerHeader && MagicIs(bytes, kContainerMagic)) return ImageKind::kFatbin;
  if (image.size() >= sizeof(Elf64_Ehdr) && std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return ImageKind::kElf;
  bool ptx = StartsLikePtx([&](size_t i) { return i < image.size() ? static_cast<char>(bytes[i]) : '\0'; });
  return ptx ? ImageKind::kPtx : ImageKind::kUnknown;
}

absl::StatusOr<std::span<const std::byte>> TrustedImage(const void* image) {
  auto bytes = static_cast<const unsigned char*>(image);
  if (bytes != nullptr && MagicIs(bytes, kWrapperMagic)) {
    Wrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    bytes = static_cast<const unsigned char*>(wrapper.container);
    if (bytes == nullptr || !MagicIs(bytes, kContainerMagic)) {
      return absl::InvalidArgumentError("the wrapper of device code does not point to a fatbin");
    }
  }
  if (bytes == nullptr) return absl::InvalidArgumentError("expected an image of device code, found a null pointer");
  auto data = reinterpret_cast<const std::byte*>(bytes);
  if (MagicIs(bytes, kContainerMagic)) {
    std::span<const std::byte> header(data, kContainerHeader);
    size_t header_size = Load<uint16_t>(header, 6);
    uint64_t size = Load<uint64_t>(header, 8);
    if (header_size < kContainerHeader || size > (uint64_t{1} << 40))
      return Damaged("its header gives no sensible size");
    return std::span(data, header_size + static_cast<size_t>(size));
  }
  if (std::memcmp(bytes, ELFMAG, 1) == 0 && MagicIs(bytes, 0x464C457F)) {
    if (bytes[EI_CLASS] != ELFCLASS64) return absl::InvalidArgumentError("expected a 64-bit ELF image");
    return std::span(data, ElfSize(bytes));
  }
  if (StartsLikePtx([&](size_t i) { return static_cast<char>(bytes[i]); })) {
    return std::span(data, std::strlen(reinterpret_cast<const char*>(bytes)));
  }
  return absl::InvalidArgumentError(
      "expected a fatbin, an ELF image or PTX text; found bytes that are none of these (PTX starts with .version)");
}

absl::StatusOr<std::vector<Entry>> List(std::span<const std::byte> container) {
  if (Sniff(container) != ImageKind::kFatbin) return absl::InvalidArgumentError("expected a fatbin container");
  size_t header_size = Load<uint16_t>(container, 6);
  uint64_t size = Load<uint64_t>(container, 8);
  if (header_size < kContainerHeader || header_size > container.size()) return Damaged("header size");
  std::span<const std::byte> rest = container.subspan(header_size);
  if (size > rest.size()) return Damaged(absl::StrCat("it says ", size, " bytes follow, but ", rest.size(), " do"));
  rest = rest.first(size);
  std::vector<Entry> entries;
  while (rest.size() >= kEntryHeader) {
    if (entries.size() == kMaxEntries) return Damaged("too many entries");
    size_t entry_header = Load<uint32_t>(rest, 0x04);
    uint64_t stored = Load<uint64_t>(rest, 0x08);
    uint32_t packed = Load<uint32_t>(rest, 0x10);
    if (entry_header < kEntryHeader || entry_header > rest.size()) return Damaged("size of an entry's header");
    if (stored > rest.size() - entry_header) return Damaged("size of an entry");
    if (packed > stored) return Damaged("compressed size of an entry");
    Entry entry;
    entry.kind = static_cast<EntryKind>(Load<uint16_t>(rest, 0x00));
    entry.version_minor = Load<uint16_t>(rest, 0x18);
    entry.version_major = Load<uint16_t>(rest, 0x1a);
    entry.sm = Load<uint32_t>(rest, 0x1c);
    entry.flags = Load<uint64_t>(rest, 0x28);
    entry.architecture = (entry.flags & kFlagArchitecture) != 0;
    entry.family = (entry.flags & kFlagFamily) != 0;
    entry.payload = rest.subspan(entry_header, packed != 0 ? packed : stored);
    entry.unpacked_size = packed != 0 ? Load<uint64_t>(rest, 0x38) : 0;
    entries.push_back(entry);
    rest = rest.subspan(entry_header + stored);
  }
  return entries;
}

absl::StatusOr<std::string> Unpack(const Entry& entry) {
  std::string_view stored(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
  bool text = entry.kind == EntryKind::kPtx;
  if ((entry.flags & (kFlagLz4 | kFlagZstd)) == 0) {
    if (stored.size() > kMaxPtxBytes) return absl::ResourceExhaustedError("an entry of the fatbin is too large");
    return text ? Text(stored) : std::string(stored);
  }
  if (entry.unpacked_size == 0) return Damaged("a compressed entry without a size");
  if (entry.unpacked_size > kMaxPtxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("an entry of the fatbin unpacks to ", entry.unpacked_size,
                                                     " bytes; at most ", kMaxPtxBytes, " are taken"));
  }
  std::string out;
  size_t got = 0;
  if ((entry.flags & kFlagZstd) != 0) {
    // The frame's own size comes first: it costs nothing to see that a small lie claims much.
    unsigned long long frame = ZSTD_getFrameContentSize(stored.data(), stored.size());
    if (frame == ZSTD_CONTENTSIZE_ERROR || (frame != ZSTD_CONTENTSIZE_UNKNOWN && frame != entry.unpacked_size)) {
      return Damaged("zstd frame");
    }
    out.resize(entry.unpacked_size);
    got = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(got)) return Damaged(absl::StrCat("zstd: ", ZSTD_getErrorName(got)));
  } else {
    // A byte of LZ4 gives at most 255.
    if (entry.unpacked_size / 255 > stored.size()) return Damaged("LZ4 block");
    out.resize(entry.unpacked_size);
    int size =
        LZ4_decompress_safe(stored.data(), out.data(), static_cast<int>(stored.size()), static_cast<int>(out.size()));
    if (size < 0) return Damaged("LZ4 block");
    got = static_cast<size_t>(size);
  }
  out.resize(got);
  return text ? Text(out) : out;
}

absl::StatusOr<std::string> ChoosePtx(std::span<const std::byte> image, uint32_t sm) {
  switch (Sniff(image)) {
    case ImageKind::kPtx: {
      if (image.size() > kMaxPtxBytes) return absl::ResourceExhaustedError("the PTX text is too large");
      return Text({reinterpret_cast<const char*>(image.data()), image.size()});
    }
    case ImageKind::kElf:
      return absl::NotFoundError(
          "the image is machine code only; build it with PTX (nvcc -gencode arch=…,code=compute_…)");
    case ImageKind::kFatbin:
      break;
    case ImageKind::kWrapper:
    case ImageKind::kUnknown:
      return absl::InvalidArgumentError("expected a fatbin, an ELF image or PTX text");
  }
  absl::StatusOr<std::vector<Entry>> entries = List(image);
  if (!entries.ok()) return entries.status();
  const Entry* best = nullptr;
  std::string found;
  for (const Entry& entry : *entries) {
    absl::StrAppend(&found, found.empty() ? "" : ", ", entry.kind == EntryKind::kPtx ? "PTX " : "code ", entry.sm,
                    entry.architecture ? "a"
                    : entry.family     ? "f"
                                       : "");
    if (found.size() > 400) found.resize(400);
    if (entry.kind != EntryKind::kPtx || !Fits(entry, sm)) continue;
    // Of equal versions the more specific one.
    auto rank = [](const Entry& e) { return e.sm * 4 + (e.architecture ? 2 : e.family ? 1 : 0); };
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  }
  if (best == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the fatbin has no PTX for sm_", sm, "; it holds ", found.empty() ? "nothing" : found));
  }
  return Unpack(*best);
}

}  // namespace tf::cuda::fatbin
