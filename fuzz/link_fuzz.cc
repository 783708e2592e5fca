// What a peer can send before and after the hello: the hello's parser, connection strings, and a ring whose positions
// and headers are the input's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "link/connection_string.h"
#include "link/hello.h"
#include "link/ring.h"

namespace tf::link {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzHello(Bytes input) {
  const auto hello = ParseHello(input);
  if (!hello.ok()) return;
  const auto frame = FormatHello(*hello);
  const Bytes payload = Bytes(frame).subspan(sizeof(FrameHeader));
  Require(payload.size() == input.size() && std::memcmp(payload.data(), input.data(), input.size()) == 0);
}

void FuzzConnectionString(std::string_view text) {
  const auto value = ParseConnectionString(text);
  if (!value.ok()) return;
  const auto again = ParseConnectionString(FormatConnectionString(*value));
  Require(again.ok() && *again == *value);
}

void FuzzRing(Bytes input) {
  constexpr size_t kCapacity = size_t{2} << 20;
  static RingControl control;
  static std::vector<std::byte> bytes(2 * kCapacity + 16);
  uint64_t positions[2];
  if (input.size() < sizeof(positions)) return;
  std::memcpy(positions, input.data(), sizeof(positions));
  input = input.subspan(sizeof(positions));
  const size_t size = std::min(input.size(), kCapacity);
  if (size > 0) std::memcpy(bytes.data(), input.data(), size);
  control.tail.store(positions[0]);
  control.head.store(positions[1]);
  const RingMemory memory{&control, bytes.data(), kCapacity};
  RingReader reader(memory);
  for (int i = 0; i < 100; ++i) {
    FrameHeader header;
    Bytes payload;
    if (reader.Next(header, payload) != RingState::kReady) break;
    Require(payload.size() <= kMaxFrame && payload.data() >= bytes.data() &&
            payload.data() + payload.size() <= bytes.data() + 2 * kCapacity);
  }
  control.head.store(positions[1]);
  RingWriter writer(memory);
  for (int i = 0; i < 8 && writer.TryReserve(kMaxFrame) == RingState::kReady; ++i) writer.Commit({.size = kMaxFrame});
}

}  // namespace
}  // namespace tf::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const tf::link::Bytes input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      tf::link::FuzzHello(input);
      break;
    case 1:
      tf::link::FuzzConnectionString({reinterpret_cast<const char*>(input.data()), input.size()});
      break;
    case 2:
      tf::link::FuzzRing(input);
      break;
  }
  return 0;
}
