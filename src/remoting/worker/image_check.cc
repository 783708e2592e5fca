#include "remoting/worker/image_check.h"

#include <elf.h>

#include <cstring>

#include "cuda/fatbin.h"

namespace tf::remoting {

namespace {

bool Inside(uint64_t offset, uint64_t size, size_t total) { return offset <= total && size <= total - offset; }

bool ElfIsSelfContained(std::span<const std::byte> image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return false;
  std::memcpy(&header, image.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return false;
  if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) return false;
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (!Inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), image.size()) ||
      !Inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), image.size())) {
    return false;
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !Inside(section.sh_offset, section.sh_size, image.size())) return false;
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!Inside(segment.p_offset, segment.p_filesz, image.size())) return false;
  }
  return true;
}

}  // namespace

bool IsSelfContained(std::span<const std::byte> image) {
  switch (cuda::fatbin::Sniff(image)) {
    case cuda::fatbin::ImageKind::kPtx:
      return true;  // ends with the NUL that is appended to it
    case cuda::fatbin::ImageKind::kFatbin:
      return cuda::fatbin::List(image).ok();
    case cuda::fatbin::ImageKind::kElf:
      return ElfIsSelfContained(image);
    case cuda::fatbin::ImageKind::kWrapper:
    case cuda::fatbin::ImageKind::kUnknown:
      return false;
  }
  return false;
}

}  // namespace tf::remoting
