#include "process_node/websocket.h"

#include <openssl/sha.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tf::process_node {

std::string WebSocketAccept(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::Base64Escape(std::string(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<std::optional<WebSocketMessage>> WebSocketReader::Next() {
  while (true) {
    if (bytes_.size() < 2) return std::nullopt;
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes_[i]); };
    const bool last = (byte(0) & 0x80) != 0;
    const uint8_t opcode = byte(0) & 0x0f;
    if ((byte(0) & 0x70) != 0) return absl::InvalidArgumentError("WebSocket: reserved bits are set");
    if ((byte(1) & 0x80) == 0) return absl::InvalidArgumentError("WebSocket: a client's frame is not masked");
    uint64_t length = byte(1) & 0x7f;
    size_t head = 2;
    if (length >= 126) {
      const size_t size = length == 126 ? 2 : 8;
      if (bytes_.size() < head + size) return std::nullopt;
      length = 0;
      for (size_t i = 0; i < size; ++i) length = length << 8 | byte(head + i);
      head += size;
    }
    const bool control = (opcode & 0x8) != 0;
    if (control && (length > 125 || !last)) return absl::InvalidArgumentError("WebSocket: a control frame in parts");
    const size_t before = partial_ ? partial_->payload.size() : 0;
    if (length > max_message_ || before + length > max_message_) {
      return absl::ResourceExhaustedError(absl::StrCat("WebSocket: a message of more than ", max_message_, " bytes"));
    }
    if (bytes_.size() < head + 4 + length) return std::nullopt;
    std::string payload = bytes_.substr(head + 4, length);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(payload[i] ^ bytes_[head + i % 4]);
    bytes_.erase(0, head + 4 + length);

    if (control) {
      if (opcode > 10) return absl::InvalidArgumentError(absl::StrCat("WebSocket: unknown opcode ", opcode));
      return WebSocketMessage{static_cast<WebSocketMessage::Type>(opcode), std::move(payload)};
    }
    if (opcode > 2) return absl::InvalidArgumentError(absl::StrCat("WebSocket: unknown opcode ", opcode));
    if ((opcode == 0) != partial_.has_value()) {
      return absl::InvalidArgumentError("WebSocket: a fragment where none belongs");
    }
    if (partial_) {
      partial_->payload += payload;
    } else {
      partial_ = WebSocketMessage{static_cast<WebSocketMessage::Type>(opcode), std::move(payload)};
    }
    if (last) return std::exchange(partial_, std::nullopt);
  }
}

std::string WebSocketFrame(WebSocketMessage::Type type, std::string_view payload) {
  std::string frame;
  frame += static_cast<char>(0x80 | static_cast<uint8_t>(type));
  if (payload.size() < 126) {
    frame += static_cast<char>(payload.size());
  } else {
    const size_t size = payload.size() < 65536 ? 2 : 8;
    frame += static_cast<char>(size == 2 ? 126 : 127);
    for (size_t i = size; i-- > 0;) frame += static_cast<char>(payload.size() >> (8 * i));
  }
  frame += payload;
  return frame;
}

std::string WebSocketClose(uint16_t code, std::string_view reason) {
  std::string payload;
  payload += static_cast<char>(code >> 8);
  payload += static_cast<char>(code & 0xff);
  payload += reason.substr(0, 123);
  return WebSocketFrame(WebSocketMessage::Type::kClose, payload);
}

}  // namespace tf::process_node
