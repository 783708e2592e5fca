// The first frame each way on every socket of a link, before anything else is believed.
//
// The client says hello on its first socket (TCP: data; shared memory: control), the worker accepts or refuses. Over
// TCP the acceptance carries a random token with which the client's second socket joins the session; over shared memory
// it carries the descriptor of the rings.
//
// Payload, little-endian: magic u32, version u16, role u16, protocol hash u64, token 16 bytes, ring bytes u64, then
// program version, text and message, each a u16 length and that many bytes; nothing behind.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "link/frame.h"
#include "link/stream.h"

namespace tf::link {

using Token = std::array<std::byte, 16>;

struct Hello {
  enum class Role : uint16_t { kConnect = 1, kJoin = 2, kAccept = 3, kRefuse = 4 };

  Role role = Role::kConnect;
  uint64_t protocol_hash = 0;
  Token token{};
  uint64_t ring_bytes = 0;      // kAccept over shared memory: capacity of each ring
  std::string program_version;  // at most kMaxHelloVersion
  std::string text;             // at most kMaxHelloText
  std::string message;          // kRefuse: the reason, at most kMaxHelloMessage
};

inline constexpr uint32_t kHelloMagic = 0x4b4e4c54;  // "TLNK"
inline constexpr uint16_t kLinkVersion = 1;          // of this framing and hello; the protocol above has its hash
inline constexpr size_t kMaxHelloVersion = 256;
inline constexpr size_t kMaxHelloMessage = 1024;
inline constexpr size_t kMaxHello = 4096;  // bytes of payload

// A whole frame. `fds` is the number of descriptors that go with it. Longer strings than permitted are cut.
std::vector<std::byte> FormatHello(const Hello& hello, size_t fds = 0);
absl::StatusOr<Hello> ParseHello(Bytes payload);

// Of both protocol hashes; the message names both versions, in the same words on both sides.
absl::Status CheckProtocol(const Hello& client, const Hello& worker);

// Bytes of the peer made fit for a message or a log line.
std::string Printable(const std::string& text);

// Reads exactly one hello frame in steps, never a byte behind it.
class HelloReader {
 public:
  // nullopt: not complete, poll for `events`.
  absl::StatusOr<std::optional<Hello>> Step(Stream& stream, short& events);

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(sizeof(FrameHeader));
  size_t have_ = 0;
};

}  // namespace tf::link
