// Images of device code as a remote program may send them.
//
// What must hold: nothing crashes or reads beyond the input; no unpacked text is larger than the limit; a chosen text
// is the text of an entry that the card can take.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cuda/fatbin.h"

namespace fatbin = tf::cuda::fatbin;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), size);
  (void)fatbin::Sniff(image);
  if (absl::StatusOr<std::vector<fatbin::Entry>> entries = fatbin::List(image); entries.ok()) {
    for (const fatbin::Entry& entry : *entries) {
      if (!entry.payload.empty() &&
          (entry.payload.data() < image.data() || entry.payload.data() + entry.payload.size() > image.data() + size)) {
        std::abort();
      }
    }
  }
  for (uint32_t sm : {70u, 80u, 90u, 121u}) {
    absl::StatusOr<std::string> ptx = fatbin::ChoosePtx(image, sm);
    if (ptx.ok() && (ptx->size() > fatbin::kMaxPtxBytes || ptx->find('\0') != std::string::npos)) std::abort();
  }
  return 0;
}
