// SPDY/3.1 frames as Kubernetes uses them for port-forward: a handful of frame types, no flow control.
//
// Follows the SPDY protocol draft 3.1. Header blocks are compressed with one zlib context per direction, so frames are
// read and written in the order of the connection. Errors are InvalidArgument and ResourceExhausted (a frame of more
// than 1 MiB, headers of more than 64 KiB): the connection is of no use after one. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tf::process_node {

struct SpdyFrame {
  // kOther: a type that needs no answer.
  enum class Type { kData, kSynStream, kReset, kPing, kGoAway, kOther };
  Type type = Type::kOther;
  uint32_t stream = 0;  // of a ping: its number
  bool last = false;    // the sender has no more to say on this stream
  std::string data = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case

  std::string_view Header(std::string_view name) const;  // "" when there is none
};

class SpdyReader {
 public:
  SpdyReader();
  ~SpdyReader();
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // nullopt: more bytes are needed.
  absl::StatusOr<std::optional<SpdyFrame>> Next();

 private:
  struct Inflater;
  std::unique_ptr<Inflater> inflater_;
  std::string bytes_;
};

class SpdyWriter {
 public:
  SpdyWriter();
  ~SpdyWriter();
  std::string SynStream(uint32_t stream, const std::vector<std::pair<std::string, std::string>>& headers);  // for tests
  std::string SynReply(uint32_t stream);                                        // without headers
  static std::string Data(uint32_t stream, std::string_view bytes, bool last);  // at most 16 MiB - 1
  static std::string Ping(uint32_t number);
  static std::string Reset(uint32_t stream, uint32_t status);

 private:
  std::string Headers(const std::vector<std::pair<std::string, std::string>>& headers);
  struct Deflater;
  std::unique_ptr<Deflater> deflater_;
};

// What both sides begin their compression with.
std::string_view SpdyDictionary();

}  // namespace tf::process_node
