// Where pinned host memory that client and worker share may lie: kernels use its addresses, so it must be at the same
// place on both sides, and neither knows what the other has mapped. The client tries random places until one is free on
// both. Two ranges in turn: one that systems leave empty, and the one of executables, which is all that a process under
// ThreadSanitizer can use of the places where nothing is by itself.
#pragma once

#include <cstdint>
#include <random>

#if defined(__SANITIZE_THREAD__)
#define TF_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TF_THREAD_SANITIZER 1
#endif
#endif

namespace tf::remoting {

inline constexpr int kRegionAttempts = 16;

struct AddressRange {
  uint64_t begin, end;
};
inline constexpr AddressRange kEmptyRange{0x100000000000, 0x500000000000};
inline constexpr AddressRange kExecutableRange{0x550000000000, 0x567000000000};

// A multiple of 2 MiB.
inline uint64_t RegionAddress(int attempt, std::mt19937_64& random) {
  constexpr uint64_t kStep = 2 << 20;
  const AddressRange& range = attempt % 2 == 0 ? kEmptyRange : kExecutableRange;
  return range.begin + random() % ((range.end - range.begin) / kStep) * kStep;
}

// Whether this process can map memory there at all.
inline bool MayMap([[maybe_unused]] uint64_t address, [[maybe_unused]] uint64_t size) {
#if defined(TF_THREAD_SANITIZER)
  return address >= kExecutableRange.begin && address < kExecutableRange.end && size <= kExecutableRange.end - address;
#else
  return true;
#endif
}

}  // namespace tf::remoting
