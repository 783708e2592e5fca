#include "support/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tf::testing {

namespace {

int Milliseconds(absl::Duration limit) {
  return limit == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(limit) + 1);
}

std::string Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ec == std::errc()) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

SSL_CTX* Showing(SSL_CTX* context, const std::string& certificate_pem, const std::string& key_pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> certificate_in(
      BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())), BIO_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> key_in(
      BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(certificate_in.get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_in.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (SSL_CTX_use_certificate(context, certificate.get()) == 1 && SSL_CTX_use_PrivateKey(context, key.get()) == 1) {
    return context;
  }
  SSL_CTX_free(context);
  return nullptr;
}

}  // namespace

std::unique_ptr<Wire> Wire::Accept(int fd, SSL_CTX* context) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SSL* ssl = nullptr;
  if (context != nullptr) {
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
  }
  return std::unique_ptr<Wire>(new Wire(fd, ssl));
}

bool Wire::Handshake() { return ssl_ == nullptr || SSL_accept(ssl_) == 1; }

absl::StatusOr<std::unique_ptr<Wire>> Wire::Connect(uint16_t port, SSL_CTX* context) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SSL* ssl = nullptr;
  if (context != nullptr) {
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
  }
  auto wire = std::unique_ptr<Wire>(new Wire(fd, ssl));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return absl::UnavailableError(absl::StrCat("no connection to 127.0.0.1:", port, ": ", std::strerror(errno)));
  }
  if (ssl != nullptr && SSL_connect(ssl) != 1) {
    return absl::UnavailableError(absl::StrCat("no TLS with 127.0.0.1:", port));
  }
  return wire;
}

Wire::~Wire() {
  if (fd_ >= 0) close(fd_);
  SSL_free(ssl_);
}

bool Wire::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                         : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && ssl_ == nullptr && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Wire::Receive(std::string& buffer) {
  char bytes[64 << 10];
  while (true) {
    const ssize_t count = ssl_ != nullptr ? SSL_read(ssl_, bytes, sizeof bytes) : recv(fd_, bytes, sizeof bytes, 0);
    if (count < 0 && ssl_ == nullptr && errno == EINTR) continue;
    if (count <= 0) return false;
    buffer.append(bytes, static_cast<size_t>(count));
    return true;
  }
}

bool Wire::Wait(absl::Duration limit, Wire* other, bool* other_ready) {
  if (other_ready != nullptr) *other_ready = false;
  if (ssl_ != nullptr && SSL_pending(ssl_) > 0) return true;
  pollfd waits[2] = {{fd_, POLLIN | POLLRDHUP, 0}, {other != nullptr ? other->fd_ : -1, POLLIN | POLLRDHUP, 0}};
  while (true) {
    const int ready = poll(waits, 2, Milliseconds(limit));
    if (ready < 0 && errno == EINTR) continue;
    if (other_ready != nullptr) *other_ready = waits[1].revents != 0;
    return ready > 0;
  }
}

bool Wire::Hold(absl::Duration limit) {
  pollfd wait{fd_, POLLRDHUP, 0};
  while (true) {
    const int ready = poll(&wait, 1, Milliseconds(limit));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

bool Wire::PeerGone() const {
  pollfd look{fd_, POLLRDHUP, 0};
  return poll(&look, 1, 0) > 0;
}

void Wire::Cut() {
  if (fd_ < 0) return;
  const linger at_once{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

void Wire::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void Wire::Shutdown() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

SSL_CTX* ServerContext(const std::string& certificate_pem, const std::string& key_pem) {
  return Showing(SSL_CTX_new(TLS_server_method()), certificate_pem, key_pem);
}

SSL_CTX* ClientContext(const std::string& certificate_pem, const std::string& key_pem) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  return certificate_pem.empty() ? context : Showing(context, certificate_pem, key_pem);
}

std::string_view HttpHead::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

bool ReadHead(Wire& wire, std::string& buffer, HttpHead& head) {
  size_t end;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (buffer.size() > (64 << 10) || !wire.Receive(buffer)) return false;
  }
  std::string_view text(buffer.data(), end);
  head = {};
  bool first = true;
  while (!text.empty()) {
    const size_t line_end = text.find("\r\n");
    const std::string_view line = text.substr(0, line_end);
    text = line_end == std::string_view::npos ? std::string_view() : text.substr(line_end + 2);
    if (first) {
      head.first_line = std::string(line);
      first = false;
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const size_t value = line.find_first_not_of(' ', colon + 1);
    head.headers.emplace_back(std::move(name),
                              value == std::string_view::npos ? std::string() : std::string(line.substr(value)));
  }
  buffer.erase(0, end + 4);
  return true;
}

BodyReader::BodyReader(const HttpHead& head, bool may_end_with_connection) {
  chunked_ = head.Header("transfer-encoding") == "chunked";
  const std::string_view length = head.Header("content-length");
  if (chunked_) return;
  if (!length.empty()) {
    std::from_chars(length.data(), length.data() + length.size(), left_);
    done_ = left_ == 0;
  } else {
    to_the_end_ = may_end_with_connection;
    done_ = !to_the_end_;
  }
}

std::string BodyReader::Take(std::string& buffer) {
  std::string out;
  if (to_the_end_) {
    out.swap(buffer);
    return out;
  }
  while (!done_ && !buffer.empty()) {
    if (left_ > 0) {
      const size_t count = std::min<uint64_t>(left_, buffer.size());
      out.append(buffer, 0, count);
      buffer.erase(0, count);
      left_ -= count;
      if (left_ == 0 && !chunked_) done_ = true;
      after_chunk_ = chunked_;
      continue;
    }
    if (after_chunk_) {
      if (buffer.size() < 2) break;
      buffer.erase(0, 2);
      after_chunk_ = false;
      continue;
    }
    const size_t line_end = buffer.find("\r\n");
    if (line_end == std::string::npos) break;
    std::from_chars(buffer.data(), buffer.data() + line_end, left_, 16);
    if (left_ == 0) {
      if (buffer.size() < line_end + 4) break;
      buffer.erase(0, line_end + 4);
      done_ = true;
      break;
    }
    buffer.erase(0, line_end + 2);
  }
  return out;
}

Target ParseTarget(std::string_view target) {
  Target out;
  const size_t mark = target.find('?');
  out.path = Decode(target.substr(0, mark));
  if (mark == std::string_view::npos) return out;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = pair.find('=');
    out.query[Decode(pair.substr(0, equals))] =
        equals == std::string_view::npos ? std::string() : Decode(pair.substr(equals + 1));
  }
  return out;
}

}  // namespace tf::testing
