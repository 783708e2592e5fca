// Images of device code as programs hand them to a driver: the wrapper that compilers emit, a fatbin container, an ELF
// cubin, or PTX text. Finds their length, lists what a container holds, and chooses and unpacks the PTX that a driver
// would compile for a given card. The layout is described in docs of public tools; numbers are little-endian.
//
// TrustedImage follows pointers of this process. Everything else reads only the bytes it is given and is safe with
// hostile input: every offset is checked and unpacked sizes are bounded by kMaxPtxBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tf::cuda::fatbin {

inline constexpr size_t kMaxPtxBytes = size_t{128} << 20;
inline constexpr size_t kMaxEntries = 65536;

enum class ImageKind { kUnknown, kWrapper, kFatbin, kElf, kPtx };

// By the first bytes; PTX text may start with white space and comments.
ImageKind Sniff(std::span<const std::byte> image);

// The image at a pointer that the program gave to cuModuleLoadData or cuLibraryLoadData. A wrapper stands for the
// container that it points to; PTX text is returned without its terminating NUL. The bytes belong to the program.
// InvalidArgument: no known kind of image.
absl::StatusOr<std::span<const std::byte>> TrustedImage(const void* image);

enum class EntryKind : uint16_t { kPtx = 1, kElf = 2, kLtoIr = 8 };

struct Entry {
  EntryKind kind;                         // kinds that are not named above are listed too
  uint32_t sm;                            // 80 for sm_80
  bool architecture;                      // an `a` target: for exactly this card
  bool family;                            // an `f` target: for cards of the same major version, from this one on
  uint64_t flags;                         // as stored
  uint16_t version_major, version_minor;  // of the PTX language or of the cubin
  std::span<const std::byte> payload;     // as stored: without padding when compressed
  uint64_t unpacked_size;                 // 0 when stored raw
};

// The entries of a container. InvalidArgument: not a container, or a damaged one.
absl::StatusOr<std::vector<Entry>> List(std::span<const std::byte> container);

// The payload of an entry, unpacked. PTX loses its trailing NULs.
// InvalidArgument: damaged or packed in an unknown way; ResourceExhausted: more than kMaxPtxBytes.
absl::StatusOr<std::string> Unpack(const Entry& entry);

// The PTX text for a card of version `sm` (80 for 8.0): the text itself, or of a container the highest one that the
// card can take. InvalidArgument: no image, or damaged (CUDA_ERROR_INVALID_IMAGE); NotFound: an image without PTX for
// this card (CUDA_ERROR_NO_BINARY_FOR_GPU); ResourceExhausted as above.
absl::StatusOr<std::string> ChoosePtx(std::span<const std::byte> image, uint32_t sm);

}  // namespace tf::cuda::fatbin
