#include "process_node/spdy.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

constexpr size_t kMaxFrame = 1 << 20;
constexpr size_t kMaxHeaders = 64 << 10;
constexpr uint16_t kVersion = 3;

enum ControlType : uint16_t { kSynStream = 1, kSynReply = 2, kRstStream = 3, kPing = 6, kGoAway = 7 };

void Put32(std::string& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift);
}

uint32_t Get32(std::string_view from, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(from[at + i]);
  return value;
}

std::string Control(uint16_t type, uint8_t flags, std::string_view body) {
  std::string frame;
  Put32(frame, 0x80000000U | uint32_t{kVersion} << 16 | type);
  Put32(frame, uint32_t{flags} << 24 | static_cast<uint32_t>(body.size()));
  frame += body;
  return frame;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseHeaders(std::string_view block) {
  std::vector<std::pair<std::string, std::string>> headers;
  size_t at = 0;
  const auto text = [&](std::string& into) {
    if (block.size() - at < 4) return false;
    const uint32_t size = Get32(block, at);
    at += 4;
    if (block.size() - at < size) return false;
    into = block.substr(at, size);
    at += size;
    return true;
  };
  const auto broken = [] { return absl::InvalidArgumentError("SPDY: a header block that ends in the middle"); };
  if (block.size() < 4) return broken();
  const uint32_t count = Get32(block, 0);
  at = 4;
  for (uint32_t i = 0; i < count; ++i) {
    std::string name, value;
    if (!text(name) || !text(value)) return broken();
    absl::AsciiStrToLower(&name);
    headers.emplace_back(std::move(name), std::move(value));
  }
  return headers;
}

}  // namespace

std::string_view SpdyDictionary() {
  static const std::string* const dictionary = [] {
    static constexpr const char* kWords[] = {"options",
                                             "head",
                                             "post",
                                             "put",
                                             "delete",
                                             "trace",
                                             "accept",
                                             "accept-charset",
                                             "accept-encoding",
                                             "accept-language",
                                             "accept-ranges",
                                             "age",
                                             "allow",
                                             "authorization",
                                             "cache-control",
                                             "connection",
                                             "content-base",
                                             "content-encoding",
                                             "content-language",
                                             "content-length",
                                             "content-location",
                                             "content-md5",
                                             "content-range",
                                             "content-type",
                                             "date",
                                             "etag",
                                             "expect",
                                             "expires",
                                             "from",
                                             "host",
                                             "if-match",
                                             "if-modified-since",
                                             "if-none-match",
                                             "if-range",
                                             "if-unmodified-since",
                                             "last-modified",
                                             "location",
                                             "max-forwards",
                                             "pragma",
                                             "proxy-authenticate",
                                             "proxy-authorization",
                                             "range",
                                             "referer",
                                             "retry-after",
                                             "server",
                                             "te",
                                             "trailer",
                                             "transfer-encoding",
                                             "upgrade",
                                             "user-agent",
                                             "vary",
                                             "via",
                                             "warning",
                                             "www-authenticate",
                                             "method",
                                             "get",
                                             "status",
                                             "200 OK",
                                             "version",
                                             "HTTP/1.1",
                                             "url",
                                             "public",
                                             "set-cookie",
                                             "keep-alive",
                                             "origin"};
    auto* text = new std::string;
    for (const std::string_view word : kWords) {
      Put32(*text, static_cast<uint32_t>(word.size()));
      *text += word;
    }
    *text +=
        "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
        "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
        "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
        "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
        "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
    return text;
  }();
  return *dictionary;
}

std::string_view SpdyFrame::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

struct SpdyReader::Inflater {
  z_stream zlib{};
  bool usable = inflateInit(&zlib) == Z_OK;
  ~Inflater() { inflateEnd(&zlib); }

  absl::StatusOr<std::string> Run(std::string_view bytes) {
    std::string out;
    std::array<char, 4096> buffer;
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    zlib.avail_in = static_cast<uInt>(bytes.size());
    do {
      zlib.next_out = reinterpret_cast<Bytef*>(buffer.data());
      zlib.avail_out = buffer.size();
      int status = usable ? inflate(&zlib, Z_SYNC_FLUSH) : Z_MEM_ERROR;
      if (status == Z_NEED_DICT) {
        const std::string_view dictionary = SpdyDictionary();
        status = inflateSetDictionary(&zlib, reinterpret_cast<const Bytef*>(dictionary.data()),
                                      static_cast<uInt>(dictionary.size()));
        if (status == Z_OK) continue;
      }
      if (status != Z_OK && status != Z_BUF_ERROR)
        return absl::InvalidArgumentError("SPDY: headers that cannot be unpacked");
      out.append(buffer.data(), buffer.size() - zlib.avail_out);
      if (out.size() > kMaxHeaders) return absl::ResourceExhaustedError("SPDY: headers of more than 64 KiB");
      if (status == Z_BUF_ERROR) break;
    } while (zlib.avail_in > 0 || zlib.avail_out == 0);
    return out;
  }
};

SpdyReader::SpdyReader() : inflater_(std::make_unique<Inflater>()) {}
SpdyReader::~SpdyReader() = default;

absl::StatusOr<std::optional<SpdyFrame>> SpdyReader::Next() {
  if (bytes_.size() < 8) return std::nullopt;
  const uint32_t first = Get32(bytes_, 0), second = Get32(bytes_, 4);
  const uint8_t flags = static_cast<uint8_t>(second >> 24);
  const size_t length = second & 0xffffff;
  if (length > kMaxFrame) return absl::ResourceExhaustedError("SPDY: a frame of more than 1 MiB");
  if (bytes_.size() < 8 + length) return std::nullopt;
  std::string body = bytes_.substr(8, length);
  bytes_.erase(0, 8 + length);

  SpdyFrame frame;
  if ((first & 0x80000000U) == 0) {
    frame.type = SpdyFrame::Type::kData;
    frame.stream = first;
    frame.last = (flags & 1) != 0;
    frame.data = std::move(body);
    return frame;
  }
  if ((first >> 16 & 0x7fff) != kVersion) return absl::InvalidArgumentError("SPDY: expected version 3");
  const uint16_t type = static_cast<uint16_t>(first);
  const auto need = [&](size_t size) { return body.size() >= size; };
  const auto brief = [] { return absl::InvalidArgumentError("SPDY: a control frame that is too short"); };
  switch (type) {
    case kSynStream: {
      if (!need(10)) return brief();
      frame.type = SpdyFrame::Type::kSynStream;
      frame.stream = Get32(body, 0) & 0x7fffffffU;
      frame.last = (flags & 1) != 0;
      absl::StatusOr<std::string> block = inflater_->Run(std::string_view(body).substr(10));
      if (!block.ok()) return block.status();
      auto headers = ParseHeaders(*block);
      if (!headers.ok()) return headers.status();
      frame.headers = *std::move(headers);
      return frame;
    }
    case kRstStream:
      if (!need(8)) return brief();
      frame.type = SpdyFrame::Type::kReset;
      frame.stream = Get32(body, 0) & 0x7fffffffU;
      return frame;
    case kPing:
      if (!need(4)) return brief();
      frame.type = SpdyFrame::Type::kPing;
      frame.stream = Get32(body, 0);
      return frame;
    case kGoAway:
      frame.type = SpdyFrame::Type::kGoAway;
      return frame;
    case kSynReply:
    case 8:  // HEADERS: their compression goes on with the next block
      if (!need(4)) return brief();
      if (absl::StatusOr<std::string> block = inflater_->Run(std::string_view(body).substr(4)); !block.ok()) {
        return block.status();
      }
      return frame;
    default:
      return frame;
  }
}

struct SpdyWriter::Deflater {
  z_stream zlib{};
  Deflater() {
    deflateInit(&zlib, Z_BEST_SPEED);
    const std::string_view dictionary = SpdyDictionary();
    deflateSetDictionary(&zlib, reinterpret_cast<const Bytef*>(dictionary.data()),
                         static_cast<uInt>(dictionary.size()));
  }
  ~Deflater() { deflateEnd(&zlib); }
};

SpdyWriter::SpdyWriter() : deflater_(std::make_unique<Deflater>()) {}
SpdyWriter::~SpdyWriter() = default;

std::string SpdyWriter::Headers(const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string block, out;
  Put32(block, static_cast<uint32_t>(headers.size()));
  for (const auto& [name, value] : headers) {
    for (const std::string& text : {name, value}) {
      Put32(block, static_cast<uint32_t>(text.size()));
      block += text;
    }
  }
  z_stream& zlib = deflater_->zlib;
  std::array<char, 4096> buffer;
  zlib.next_in = reinterpret_cast<Bytef*>(block.data());
  zlib.avail_in = static_cast<uInt>(block.size());
  do {
    zlib.next_out = reinterpret_cast<Bytef*>(buffer.data());
    zlib.avail_out = buffer.size();
    deflate(&zlib, Z_SYNC_FLUSH);
    out.append(buffer.data(), buffer.size() - zlib.avail_out);
  } while (zlib.avail_out == 0);
  return out;
}

std::string SpdyWriter::SynStream(uint32_t stream, const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string body;
  Put32(body, stream);
  Put32(body, 0);
  body += std::string(2, '\0');
  return Control(kSynStream, 0, body + Headers(headers));
}

std::string SpdyWriter::SynReply(uint32_t stream) {
  std::string body;
  Put32(body, stream);
  return Control(kSynReply, 0, body + Headers({}));
}

std::string SpdyWriter::Data(uint32_t stream, std::string_view bytes, bool last) {
  std::string frame;
  Put32(frame, stream & 0x7fffffffU);
  Put32(frame, (last ? 1U << 24 : 0U) | static_cast<uint32_t>(bytes.size()));
  frame += bytes;
  return frame;
}

std::string SpdyWriter::Ping(uint32_t number) {
  std::string body;
  Put32(body, number);
  return Control(kPing, 0, body);
}

std::string SpdyWriter::Reset(uint32_t stream, uint32_t status) {
  std::string body;
  Put32(body, stream);
  Put32(body, status);
  return Control(kRstStream, 0, body);
}

}  // namespace tf::process_node
