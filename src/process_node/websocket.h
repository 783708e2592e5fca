// WebSocket messages (RFC 6455), the server's side, over bytes that somebody else moves.
//
// Frames of the client are masked and may come in any pieces; messages may come in fragments with control frames
// between them. Errors are InvalidArgument (a peer that does not keep to the protocol) and ResourceExhausted (a message
// over the limit): after one the connection is of no use. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::process_node {

// The value of Sec-WebSocket-Accept for a client's Sec-WebSocket-Key.
std::string WebSocketAccept(std::string_view key);

struct WebSocketMessage {
  enum class Type : uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
  Type type;
  std::string payload;
};

class WebSocketReader {
 public:
  explicit WebSocketReader(size_t max_message = 4 << 20) : max_message_(max_message) {}
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // nullopt: more bytes are needed.
  absl::StatusOr<std::optional<WebSocketMessage>> Next();

 private:
  size_t max_message_;
  std::string bytes_;
  std::optional<WebSocketMessage> partial_;
};

// One frame, unmasked, as servers send them.
std::string WebSocketFrame(WebSocketMessage::Type type, std::string_view payload);
std::string WebSocketClose(uint16_t code, std::string_view reason);

}  // namespace tf::process_node
