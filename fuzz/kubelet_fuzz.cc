// What clients and containers send to a process node: WebSocket and SPDY frames, lines of logs, quantities, expansions.
//
// The first byte chooses; frames are read whole and in two pieces, which must give the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "process_node/environment.h"
#include "process_node/image_table.h"
#include "process_node/log_files.h"
#include "process_node/spdy.h"
#include "process_node/websocket.h"

namespace tf::process_node {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// What a reader makes of bytes, and how it ended.
template <typename Reader, typename Text>
std::vector<std::string> ReadAll(std::string_view bytes, size_t first, const Text& text) {
  Reader reader;
  std::vector<std::string> all;
  for (const std::string_view piece : {bytes.substr(0, first), bytes.substr(first)}) {
    reader.Add(piece);
    while (true) {
      auto next = reader.Next();
      if (!next.ok()) {
        all.push_back("error");
        return all;
      }
      if (!*next) break;
      all.push_back(text(**next));
    }
  }
  return all;
}

void FuzzWebSocket(std::string_view bytes) {
  const auto text = [](const WebSocketMessage& message) {
    return std::to_string(static_cast<int>(message.type)) + message.payload;
  };
  Require(ReadAll<WebSocketReader>(bytes, bytes.size(), text) ==
          ReadAll<WebSocketReader>(bytes, bytes.size() / 2, text));
}

void FuzzSpdy(std::string_view bytes) {
  const auto text = [](const SpdyFrame& frame) {
    std::string all =
        std::to_string(static_cast<int>(frame.type)) + "/" + std::to_string(frame.stream) + "/" + frame.data;
    for (const auto& [name, value] : frame.headers) all += name + "=" + value;
    return all;
  };
  Require(ReadAll<SpdyReader>(bytes, bytes.size(), text) == ReadAll<SpdyReader>(bytes, bytes.size() / 2, text));
}

void FuzzText(std::string_view text) {
  if (const std::optional<LogEntry> entry = ParseLogLine(text)) {
    Require(entry->time.size() + entry->stream.size() + entry->text.size() + 4 == text.size());
  }
  ParseQuantity(text);
  const std::string expanded = Expand(text, {{"A", "b"}});
  Require(expanded.size() <= text.size());
  Require(WithoutTag(text).size() <= text.size());
}

}  // namespace
}  // namespace tf::process_node

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      tf::process_node::FuzzWebSocket(input);
      break;
    case 1:
      tf::process_node::FuzzSpdy(input);
      break;
    default:
      tf::process_node::FuzzText(input);
      break;
  }
  return 0;
}
