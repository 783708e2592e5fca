#include "link/hello.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "link/connection.h"

namespace tf::link {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  template <class T>
  void Put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof(T));
  }
  void PutString(std::string_view text, size_t most) {
    text = text.substr(0, most);
    Put(static_cast<uint16_t>(text.size()));
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    out_.insert(out_.end(), bytes, bytes + text.size());
  }

 private:
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(Bytes in) : in_(in) {}
  template <class T>
  bool Get(T& value) {
    if (in_.size() < sizeof(T)) return false;
    std::memcpy(&value, in_.data(), sizeof(T));
    in_ = in_.subspan(sizeof(T));
    return true;
  }
  bool GetString(std::string& text, size_t most) {
    uint16_t size;
    if (!Get(size) || size > most || size > in_.size()) return false;
    text.assign(reinterpret_cast<const char*>(in_.data()), size);
    in_ = in_.subspan(size);
    return true;
  }
  bool AtEnd() const { return in_.empty(); }

 private:
  Bytes in_;
};

absl::Status NoHello(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the other side does not speak this link's protocol (", what,
                   "): is it a tensor-fusion program, and do both sides use a link key or both none?"));
}

}  // namespace

std::vector<std::byte> FormatHello(const Hello& hello, size_t fds) {
  std::vector<std::byte> bytes(sizeof(FrameHeader));
  Writer out(bytes);
  out.Put(kHelloMagic);
  out.Put(kLinkVersion);
  out.Put(hello.role);
  out.Put(hello.protocol_hash);
  out.Put(hello.token);
  out.Put(hello.ring_bytes);
  out.PutString(hello.program_version, kMaxHelloVersion);
  out.PutString(hello.text, kMaxHelloText);
  out.PutString(hello.message, kMaxHelloMessage);
  const FrameHeader header{.size = static_cast<uint32_t>(bytes.size() - sizeof(FrameHeader)),
                           .op = kOpHello,
                           .flags = static_cast<uint16_t>(fds << 12),
                           .call = 0};
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

absl::StatusOr<Hello> ParseHello(Bytes payload) {
  Reader in(payload);
  Hello hello;
  uint32_t magic;
  uint16_t version;
  uint16_t role;
  if (!in.Get(magic) || magic != kHelloMagic) return NoHello("no hello");
  if (!in.Get(version) || version != kLinkVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("this side speaks version ", kLinkVersion,
                     " of the link's framing, the other side another: install the same version on both sides"));
  }
  if (!in.Get(role) || role < static_cast<uint16_t>(Hello::Role::kConnect) ||
      role > static_cast<uint16_t>(Hello::Role::kRefuse)) {
    return NoHello("unknown role");
  }
  hello.role = static_cast<Hello::Role>(role);
  if (!in.Get(hello.protocol_hash) || !in.Get(hello.token) || !in.Get(hello.ring_bytes) ||
      !in.GetString(hello.program_version, kMaxHelloVersion) || !in.GetString(hello.text, kMaxHelloText) ||
      !in.GetString(hello.message, kMaxHelloMessage) || !in.AtEnd()) {
    return NoHello("malformed hello");
  }
  return hello;
}

absl::Status CheckProtocol(const Hello& client, const Hello& worker) {
  if (client.protocol_hash == worker.protocol_hash) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "client and worker do not fit together: the client is version %s (protocol %016x), the worker is version %s "
      "(protocol %016x); install the same version on both sides",
      Printable(client.program_version), client.protocol_hash, Printable(worker.program_version),
      worker.protocol_hash));
}

std::string Printable(const std::string& text) { return absl::CHexEscape(text); }

absl::StatusOr<std::optional<Hello>> HelloReader::Step(Stream& stream, short& events) {
  for (;;) {
    if (have_ == bytes_.size() && have_ > sizeof(FrameHeader)) {
      absl::StatusOr<Hello> hello = ParseHello(Bytes(bytes_).subspan(sizeof(FrameHeader)));
      if (!hello.ok()) return hello.status();
      return std::optional<Hello>(*std::move(hello));
    }
    if (have_ == sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, bytes_.data(), sizeof(header));
      if (header.op != kOpHello || header.size == 0 || header.size > kMaxHello) return NoHello("no hello");
      bytes_.resize(sizeof(FrameHeader) + header.size);
    }
    Stream::Result result = stream.Read(std::span(bytes_).subspan(have_));
    switch (result.outcome) {
      case Stream::Outcome::kDone:
        have_ += result.size;
        break;
      case Stream::Outcome::kAgain:
        events = result.events;
        return std::optional<Hello>();
      case Stream::Outcome::kClosed:
        return absl::UnavailableError(std::move(result.why));
    }
  }
}

}  // namespace tf::link
