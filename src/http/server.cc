#include "http/server.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "spdlog/spdlog.h"

namespace tf::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using Socket = asio::ip::tcp::socket;
using TlsStream = asio::ssl::stream<Socket&>;
using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr size_t kMaxRequestHead = 64 << 10;           // bytes of a request's head
constexpr size_t kPiece = 16 << 10;                    // bytes that are read at once
constexpr size_t kRefused = 16;                        // connections over the limit that get an answer
constexpr size_t kDrained = 16 << 20;                  // bytes that a peer may still send after our last word,
constexpr absl::Duration kDrain = absl::Seconds(1);    // and for how long
constexpr absl::Duration kRefusal = absl::Seconds(2);  // to hear a request that is refused
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);  // when there are no descriptors

std::string_view FindHeader(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What is no valid escape stays as it is.
std::string Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += text[i] == '+' && plus_is_space ? ' ' : text[i];
    }
  }
  return decoded;
}

void ParseTarget(ServerRequest& request) {
  std::string_view target = request.target;
  if (const size_t scheme = target.find("://"); !target.empty() && target[0] != '/' && scheme != target.npos) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  const size_t mark = target.find('?');
  request.path = Decode(target.substr(0, mark), false);
  std::string_view query = mark == target.npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    if (!pair.empty()) {
      request.query.emplace_back(Decode(pair.substr(0, equals), true),
                                 equals == pair.npos ? "" : Decode(pair.substr(equals + 1), true));
    }
    query = end == query.npos ? "" : query.substr(end + 1);
  }
}

bool CanBeSent(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name.empty() || name.find_first_of(": \r\n") != name.npos || value.find_first_of("\r\n") != value.npos) {
      return false;
    }
  }
  return true;
}

absl::Status StatusOf(const error_code& error) {
  if (error == asio::error::timed_out) return absl::DeadlineExceededError("the peer takes no bytes");
  return absl::UnavailableError(absl::StrCat("the connection broke: ", error.message()));
}

class Connection;

class ServerImpl final : public Server {
 public:
  ServerImpl(ServerOptions options, Handler handler) : options_(std::move(options)), handler_(std::move(handler)) {}
  ~ServerImpl() override { Stop(absl::Seconds(1)); }

  absl::Status Listen();
  uint16_t port() const override { return port_; }
  void Stop(absl::Duration grace) override;

  const ServerOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  int stop_fd() const { return stop_fd_; }
  bool stopping() const { return stopping_; }
  // Null: there is no certificate to show.
  std::shared_ptr<asio::ssl::context> TlsContext();

 private:
  struct Entry {
    std::unique_ptr<Connection> connection;
    std::thread thread;
    bool done = false;
  };

  void Accept();
  void Add(int fd, const std::string& peer);
  void Reap(std::unique_lock<std::mutex>& lock);

  const ServerOptions options_;
  const Handler handler_;
  int listener_ = -1;
  int stop_fd_ = -1;  // readable once the server stops
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread acceptor_;
  std::mutex stop_mutex_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Entry> entries_;

  std::mutex tls_mutex_;
  ServerTls tls_;  // what tls_context_ was made from
  std::shared_ptr<asio::ssl::context> tls_context_;
};

// One connection, on a thread of its own. Operations of Asio run to their end on an io_context of its own, with a timer
// beside them. Only Abort is for other threads.
class Connection {
 public:
  Connection(ServerImpl& server, int fd, std::string peer, bool refused)
      : server_(server), fd_(fd), peer_(std::move(peer)), refused_(refused), socket_(io_), timer_(io_) {
    socket_.assign(asio::ip::tcp::v4(), fd);  // the family is of no matter from here on
  }

  void Run();

  // Ends all operations of this connection.
  void Abort() { shutdown(fd_, SHUT_RDWR); }
  // Not in a handler: nothing is lost when it is cut.
  bool idle() const { return idle_; }

  // Of a handler's answer.
  absl::Status Write(std::string_view bytes) {
    const error_code error = WriteAll(bytes, server_.options().body_limit);
    return error ? StatusOf(error) : absl::OkStatus();
  }
  bool WaitForEnd(absl::Duration wait) const;
  bool stopping() const { return server_.stopping(); }

 private:
  friend class TakenOver;

  template <typename Start>
  error_code Await(absl::Duration limit, size_t* count, Start start);
  error_code ReadSome(void* to, size_t size, absl::Duration limit, size_t* count);
  error_code WriteAll(std::string_view bytes, absl::Duration limit);
  bool Handshake(ServerRequest& request);
  bool ReadIntoBuffer(absl::Duration deadline, error_code& error);
  bool ReadHead(Parser& parser);
  bool ReadBody(Parser& parser);
  bool Serve();
  void Refuse(int status, std::string_view why);
  void Linger();

  ServerImpl& server_;
  const int fd_;
  const std::string peer_;
  const bool refused_;
  std::atomic<bool> idle_ = true;
  asio::io_context io_;
  Socket socket_;
  asio::steady_timer timer_;
  std::shared_ptr<asio::ssl::context> tls_context_;
  std::optional<TlsStream> tls_;
  beast::flat_buffer buffer_;
  ServerRequest client_;  // what is true for all requests of this connection
};

// Bytes both ways from any two threads: a third one runs the io_context and does the work, so that the stream itself is
// only ever touched by one.
class TakenOver final : public Duplex {
 public:
  explicit TakenOver(Connection& connection) : connection_(connection), work_(connection.io_.get_executor()) {
    const auto rest = connection_.buffer_.data();
    in_.assign(static_cast<const char*>(rest.data()), rest.size());
    connection_.buffer_.consume(rest.size());
    connection_.io_.restart();
    pump_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http-duplex");
      connection_.io_.run();
    });
  }

  ~TakenOver() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    asio::post(connection_.io_, [this] {
      error_code ignored;
      connection_.socket_.cancel(ignored);
    });
    work_.reset();
    pump_.join();
  }

  absl::StatusOr<std::string> Read(absl::Duration limit) override {
    std::unique_lock lock(mutex_);
    if (in_.empty() && !reading_ && !ended_ && !closed_) {
      reading_ = true;
      asio::post(connection_.io_, [this] { StartRead(); });
    }
    const bool done = RealClock().WaitUntil(lock, changed_, RealClock().Monotonic() + limit,
                                            [this] { return !in_.empty() || ended_ || closed_; });
    if (!in_.empty()) return std::exchange(in_, {});
    if (closed_) return absl::CancelledError("the connection was closed on this side");
    if (!done) return absl::DeadlineExceededError(absl::StrCat("no byte within ", absl::FormatDuration(limit)));
    if (end_ == asio::error::eof || end_ == asio::ssl::error::stream_truncated) return std::string();
    return StatusOf(end_);
  }

  absl::Status Write(std::string_view bytes) override {
    std::lock_guard one_at_a_time(write_mutex_);
    std::unique_lock lock(mutex_);
    if (closed_) return absl::CancelledError("the connection was closed on this side");
    std::optional<error_code> result;
    asio::post(connection_.io_, [&] {
      auto done = [this, &result](error_code error, size_t) {
        std::lock_guard inner(mutex_);
        result = error;
        changed_.notify_all();
      };
      const auto buffer = asio::buffer(bytes.data(), bytes.size());
      if (connection_.tls_.has_value()) {
        asio::async_write(*connection_.tls_, buffer, done);
      } else {
        asio::async_write(connection_.socket_, buffer, done);
      }
    });
    changed_.wait(lock, [&] { return result.has_value(); });
    return *result ? StatusOf(*result) : absl::OkStatus();
  }

  void Close() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    connection_.Abort();
  }

 private:
  void StartRead() {
    auto done = [this](error_code error, size_t count) {
      std::lock_guard lock(mutex_);
      reading_ = false;
      in_.append(piece_, count);
      if (error) {
        ended_ = true;
        end_ = error;
      }
      changed_.notify_all();
    };
    const auto buffer = asio::buffer(piece_, sizeof piece_);
    if (connection_.tls_.has_value()) {
      connection_.tls_->async_read_some(buffer, done);
    } else {
      connection_.socket_.async_read_some(buffer, done);
    }
  }

  Connection& connection_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::mutex write_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string in_;
  char piece_[kPiece];
  bool reading_ = false;
  bool ended_ = false;
  error_code end_ = {};
  bool closed_ = false;
  std::thread pump_;
};

class Writer final : public ResponseWriter {
 public:
  Writer(Connection& connection, const ServerRequest& request, bool keep_alive, bool can_chunk)
      : connection_(connection), is_head_(request.method == "HEAD"), keep_alive_(keep_alive), can_chunk_(can_chunk) {}

  absl::Status Send(int status, std::string_view content_type, std::string_view body, const Headers& more) override {
    Headers headers = more;
    const bool bodiless = status < 200 || status == 204 || status == 304;
    if (!bodiless) headers.emplace_back("Content-Length", std::to_string(body.size()));
    absl::StatusOr<std::string> head = Head(status, content_type, headers, State::kSent);
    if (!head.ok()) return head.status();
    if (!bodiless && !is_head_) head->append(body);
    return Put(*head);
  }

  absl::Status Begin(int status, std::string_view content_type, const Headers& more) override {
    Headers headers = more;
    if (can_chunk_) {
      headers.emplace_back("Transfer-Encoding", "chunked");
    } else {
      keep_alive_ = false;  // the end of the connection is the end of the answer
    }
    absl::StatusOr<std::string> head = Head(status, content_type, headers, State::kStreaming);
    if (!head.ok()) return head.status();
    return Put(*head);
  }

  absl::Status Write(std::string_view bytes) override {
    if (state_ != State::kStreaming) return absl::FailedPreconditionError("Write without Begin");
    if (!broken_.ok() || bytes.empty() || is_head_) return broken_;
    if (!can_chunk_) return Put(bytes);
    std::string chunk = absl::StrFormat("%x\r\n", bytes.size());
    chunk.append(bytes);
    chunk += "\r\n";
    return Put(chunk);
  }

  bool PeerGone(absl::Duration wait) override { return connection_.WaitForEnd(wait); }

  absl::StatusOr<Duplex*> TakeOver(const Headers& more) override {
    Headers headers = more;
    headers.emplace_back("Connection", "Upgrade");
    absl::StatusOr<std::string> head = Head(101, "", headers, State::kTakenOver);
    if (!head.ok()) return head.status();
    if (absl::Status status = Put(*head); !status.ok()) return status;
    taken_over_.emplace(connection_);
    return &*taken_over_;
  }

  // After the handler. True: the connection serves the next request.
  bool Finish(bool threw) {
    if (state_ == State::kTakenOver) {
      taken_over_.reset();
      return false;
    }
    if (state_ == State::kNone) Send(500, "text/plain", "the handler gave no answer\n", {}).IgnoreError();
    if (state_ == State::kStreaming) {
      // Without the last chunk the peer knows that something is missing.
      if (threw) return false;
      if (can_chunk_ && !is_head_) Put("0\r\n\r\n").IgnoreError();
    }
    return keep_alive_ && broken_.ok();
  }

 private:
  enum class State { kNone, kSent, kStreaming, kTakenOver };

  absl::StatusOr<std::string> Head(int status, std::string_view content_type, const Headers& headers, State next) {
    if (state_ != State::kNone) return absl::FailedPreconditionError("the request is answered already");
    if (status < 100 || status > 999 || !CanBeSent(headers) ||
        content_type.find_first_of("\r\n") != content_type.npos) {
      return absl::InvalidArgumentError("a header or status that cannot be sent");
    }
    state_ = next;
    if (connection_.stopping()) keep_alive_ = false;
    const auto reason = beast::http::obsolete_reason(beast::http::int_to_status(static_cast<unsigned>(status)));
    std::string head = absl::StrCat("HTTP/1.1 ", status, " ", absl::string_view(reason.data(), reason.size()), "\r\n");
    if (!content_type.empty()) absl::StrAppend(&head, "Content-Type: ", std::string(content_type), "\r\n");
    for (const auto& [name, value] : headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
    if (next != State::kTakenOver && !keep_alive_) absl::StrAppend(&head, "Connection: close\r\n");
    head += "\r\n";
    return head;
  }

  absl::Status Put(std::string_view bytes) {
    if (broken_.ok()) broken_ = connection_.Write(bytes);
    return broken_;
  }

  Connection& connection_;
  const bool is_head_;
  bool keep_alive_;
  const bool can_chunk_;
  State state_ = State::kNone;
  absl::Status broken_ = {};
  std::optional<TakenOver> taken_over_;
};

template <typename Start>
error_code Connection::Await(absl::Duration limit, size_t* count, Start start) {
  error_code result = asio::error::would_block;
  bool timed_out = false;
  io_.restart();
  if (limit != absl::InfiniteDuration()) {
    timer_.expires_after(absl::ToChronoMilliseconds(std::max(limit, absl::ZeroDuration())));
    timer_.async_wait([&](error_code error) {
      if (error || result != asio::error::would_block) return;
      timed_out = true;
      error_code ignored;
      socket_.cancel(ignored);
    });
  }
  start([&](error_code error, size_t size = 0) {
    result = error;
    if (count != nullptr) *count = size;
    timer_.cancel();
  });
  io_.run();
  return timed_out && result ? asio::error::timed_out : result;
}

error_code Connection::ReadSome(void* to, size_t size, absl::Duration limit, size_t* count) {
  return Await(limit, count, [&](auto done) {
    if (tls_.has_value()) {
      tls_->async_read_some(asio::buffer(to, size), done);
    } else {
      socket_.async_read_some(asio::buffer(to, size), done);
    }
  });
}

error_code Connection::WriteAll(std::string_view bytes, absl::Duration limit) {
  return Await(limit, nullptr, [&](auto done) {
    if (tls_.has_value()) {
      asio::async_write(*tls_, asio::buffer(bytes.data(), bytes.size()), done);
    } else {
      asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), done);
    }
  });
}

bool Connection::WaitForEnd(absl::Duration wait) const {
  const absl::Duration deadline = RealClock().Monotonic() + wait;
  for (;;) {
    const absl::Duration left = std::min(deadline - RealClock().Monotonic(), absl::Hours(1));
    pollfd waited[] = {{fd_, POLLRDHUP, 0}, {server_.stop_fd(), POLLIN, 0}};
    const int milliseconds = static_cast<int>(
        absl::ToInt64Milliseconds(absl::Ceil(std::max(left, absl::ZeroDuration()), absl::Milliseconds(1))));
    if (poll(waited, 2, milliseconds) > 0) return true;
    if (RealClock().Monotonic() >= deadline) return false;
  }
}

std::string NameEntry(X509_NAME* name, int index) {
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)));
  if (size < 0) return "";
  std::string entry(reinterpret_cast<char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return entry;
}

bool Connection::Handshake(ServerRequest& request) {
  request.peer_address = peer_;
  if (!server_.options().tls) return true;
  tls_context_ = server_.TlsContext();
  if (tls_context_ == nullptr) return false;
  tls_.emplace(socket_, *tls_context_);
  const error_code error = Await(server_.options().header_limit, nullptr,
                                 [&](auto done) { tls_->async_handshake(asio::ssl::stream_base::server, done); });
  if (error) {
    spdlog::debug("{}: no TLS with {}: {}", server_.options().name, peer_, error.message());
    return false;
  }
  X509* certificate = SSL_get1_peer_certificate(tls_->native_handle());
  if (certificate == nullptr) return true;
  X509_NAME* name = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(name, NID_commonName, at)) >= 0;) {
    request.peer_common_name = NameEntry(name, at);
  }
  for (int at = -1; (at = X509_NAME_get_index_by_NID(name, NID_organizationName, at)) >= 0;) {
    request.peer_groups.push_back(NameEntry(name, at));
  }
  X509_free(certificate);
  return true;
}

// False at the end of the stream, of the time (`deadline`), or of the connection.
bool Connection::ReadIntoBuffer(absl::Duration deadline, error_code& error) {
  auto space = buffer_.prepare(kPiece);
  size_t count = 0;
  error = ReadSome(space.data(), space.size(), deadline - RealClock().Monotonic(), &count);
  buffer_.commit(count);
  return !error;
}

bool Connection::ReadHead(Parser& parser) {
  const ServerOptions& options = server_.options();
  error_code error;
  if (buffer_.size() == 0 &&
      !ReadIntoBuffer(RealClock().Monotonic() + (refused_ ? kRefusal : options.idle_limit), error)) {
    return false;
  }
  idle_ = false;
  const absl::Duration deadline = RealClock().Monotonic() + (refused_ ? kRefusal : options.header_limit);
  for (;;) {
    const size_t used = parser.put(buffer_.data(), error);
    buffer_.consume(used);
    if (parser.is_header_done() && !error) return true;
    if (error == beast::http::error::need_more) {
      if (ReadIntoBuffer(deadline, error)) continue;
      if (error == asio::error::timed_out) Refuse(408, "the head of the request did not come in time");
      return false;
    }
    if (error == beast::http::error::header_limit) {
      Refuse(431, "the head of the request is too large");
    } else if (error == beast::http::error::body_limit) {
      Refuse(413, absl::StrCat("the body of the request is over ", options.max_body, " bytes"));
    } else {
      Refuse(400, absl::StrCat("no HTTP request: ", error.message()));
    }
    return false;
  }
}

bool Connection::ReadBody(Parser& parser) {
  const ServerOptions& options = server_.options();
  parser.eager(true);
  const absl::Duration deadline = RealClock().Monotonic() + options.body_limit;
  if (!parser.is_done() && parser.get().version() >= 11 &&
      beast::iequals(parser.get()[beast::http::field::expect], "100-continue") && buffer_.size() == 0) {
    if (WriteAll("HTTP/1.1 100 Continue\r\n\r\n", options.body_limit)) return false;
  }
  while (!parser.is_done()) {
    error_code error;
    if (buffer_.size() > 0) {
      const size_t used = parser.put(buffer_.data(), error);
      buffer_.consume(used);
      if (!error) continue;
    }
    if (!error || error == beast::http::error::need_more) {
      if (ReadIntoBuffer(deadline, error)) continue;
      if (error == asio::error::timed_out) Refuse(408, "the body of the request did not come in time");
      return false;
    }
    if (error == beast::http::error::body_limit) {
      Refuse(413, absl::StrCat("the body of the request is over ", options.max_body, " bytes"));
    } else {
      Refuse(400, absl::StrCat("no HTTP request: ", error.message()));
    }
    return false;
  }
  return true;
}

// True: the connection goes on with the next request.
bool Connection::Serve() {
  Parser parser;
  parser.header_limit(kMaxRequestHead);
  parser.body_limit(server_.options().max_body);
  if (!ReadHead(parser)) return false;
  if (refused_) {
    Refuse(503, "too many connections, try again");
    return false;
  }
  if (!ReadBody(parser)) return false;

  auto& message = parser.get();
  ServerRequest request = client_;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    const auto name = field.name_string(), value = field.value();
    request.headers.emplace_back(absl::AsciiStrToLower(absl::string_view(name.data(), name.size())),
                                 std::string(value.data(), value.size()));
  }
  request.body = std::move(message.body());
  ParseTarget(request);

  Writer writer(*this, request, parser.keep_alive(), message.version() >= 11);
  bool threw = false;
  try {
    server_.handler()(request, writer);
  } catch (const std::exception& thrown) {
    threw = true;
    spdlog::error("{}: the handler of {} {} threw: {}", server_.options().name, request.method, request.path,
                  thrown.what());
  } catch (...) {
    threw = true;
    spdlog::error("{}: the handler of {} {} threw", server_.options().name, request.method, request.path);
  }
  const bool go_on = writer.Finish(threw) && !server_.stopping();
  idle_ = go_on;
  if (!go_on) Linger();
  return go_on;
}

void Connection::Refuse(int status, std::string_view why) {
  const auto reason = beast::http::obsolete_reason(beast::http::int_to_status(static_cast<unsigned>(status)));
  const std::string text = absl::StrCat(std::string(why), "\n");
  const std::string answer = absl::StrCat("HTTP/1.1 ", status, " ", absl::string_view(reason.data(), reason.size()),
                                          "\r\nContent-Type: text/plain\r\n", status == 503 ? "Retry-After: 1\r\n" : "",
                                          "Content-Length: ", text.size(), "\r\nConnection: close\r\n\r\n", text);
  if (!WriteAll(answer, kRefusal)) Linger();
}

// Closed while bytes of the peer are unread, a connection is reset, and the peer may lose our last answer.
void Connection::Linger() {
  const absl::Duration deadline = RealClock().Monotonic() + kDrain;
  if (tls_.has_value()) Await(kDrain, nullptr, [&](auto done) { tls_->async_shutdown(done); });
  tls_.reset();
  shutdown(fd_, SHUT_WR);
  char bytes[kPiece];
  size_t count = 0;
  for (size_t drained = 0; drained < kDrained && !server_.stopping(); drained += count) {
    if (ReadSome(bytes, sizeof bytes, deadline - RealClock().Monotonic(), &count)) return;
  }
}

void Connection::Run() {
  try {
    if (Handshake(client_)) {
      while (Serve()) {
      }
    }
  } catch (const std::exception& thrown) {  // no memory, for instance: ends this connection only
    spdlog::error("{}: a connection of {} ends: {}", server_.options().name, peer_, thrown.what());
  }
  Abort();  // the peer shall not wait until the thread is joined
}

absl::Status ServerImpl::Listen() {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options_.address, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("\"", options_.address, "\" is no IP address to listen on"));
  const asio::ip::tcp::endpoint endpoint(address, options_.port);
  listener_ = socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const std::string where = absl::StrCat(options_.address, ":", options_.port);
  if (listener_ < 0) return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", where));
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener_, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 || listen(listener_, 512) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", where, ": another program has this port; stop it or choose another port"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("listening on ", where));
  }
  asio::ip::tcp::endpoint bound;
  socklen_t size = static_cast<socklen_t>(bound.capacity());
  getsockname(listener_, bound.data(), &size);
  bound.resize(size);
  port_ = bound.port();
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  acceptor_ = std::thread([this] { Accept(); });
  return absl::OkStatus();
}

void ServerImpl::Accept() {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  while (!stopping_) {
    pollfd waited[] = {{listener_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    poll(waited, 2, -1);
    if (waited[1].revents != 0) return;
    asio::ip::tcp::endpoint peer;
    socklen_t size = static_cast<socklen_t>(peer.capacity());
    const int fd = accept4(listener_, peer.data(), &size, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        spdlog::warn("{}: cannot accept a connection: {}", options_.name, strerror(errno));
        poll(&waited[1], 1, static_cast<int>(absl::ToInt64Milliseconds(kAcceptPause)));
      }
      continue;
    }
    peer.resize(size);
    const std::string address = peer.address().to_string();
    Add(fd, peer.address().is_v6() ? absl::StrCat("[", address, "]:", peer.port())
                                   : absl::StrCat(address, ":", peer.port()));
  }
}

void ServerImpl::Add(int fd, const std::string& peer) {
  std::unique_lock lock(mutex_);
  Reap(lock);
  if (entries_.size() >= options_.max_connections + kRefused) {
    close(fd);
    return;
  }
  const bool refused = entries_.size() >= options_.max_connections;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  Entry& entry = entries_.emplace_back();
  try {
    entry.connection = std::make_unique<Connection>(*this, fd, peer, refused);
    entry.thread = std::thread([this, &entry] {
      pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
      entry.connection->Run();
      std::lock_guard inner(mutex_);
      entry.done = true;
      ended_.notify_all();
    });
  } catch (const std::exception& thrown) {
    spdlog::warn("{}: no thread for the connection of {}: {}", options_.name, peer, thrown.what());
    if (entry.connection == nullptr) close(fd);
    entries_.pop_back();
  }
}

void ServerImpl::Reap(std::unique_lock<std::mutex>& lock) {
  std::list<Entry> done;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto next = std::next(it);
    if (it->done) done.splice(done.end(), entries_, it);
    it = next;
  }
  if (done.empty()) return;
  lock.unlock();
  for (Entry& entry : done) entry.thread.join();
  done.clear();
  lock.lock();
}

void ServerImpl::Stop(absl::Duration grace) {
  std::lock_guard one_at_a_time(stop_mutex_);
  stopping_ = true;
  if (stop_fd_ >= 0) eventfd_write(stop_fd_, 1);
  if (acceptor_.joinable()) acceptor_.join();
  if (listener_ >= 0) close(listener_);
  listener_ = -1;

  std::unique_lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.connection->idle()) entry.connection->Abort();
  }
  auto all_done = [this] {
    return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.done; });
  };
  RealClock().WaitUntil(lock, ended_, RealClock().Monotonic() + grace, all_done);
  for (Entry& entry : entries_) entry.connection->Abort();
  ended_.wait(lock, all_done);
  Reap(lock);
  lock.unlock();
  if (stop_fd_ >= 0) close(stop_fd_);
  stop_fd_ = -1;
}

std::shared_ptr<asio::ssl::context> ServerImpl::TlsContext() {
  std::lock_guard lock(tls_mutex_);
  absl::StatusOr<ServerTls> tls = options_.tls();
  if (!tls.ok()) {
    spdlog::warn(
        "{}: {}: {}", options_.name,
        tls_context_ == nullptr ? "no certificate, connections are closed" : "the last certificate stays in use",
        std::string(tls.status().message()));
    return tls_context_;
  }
  if (tls_context_ != nullptr && tls->certificate_pem == tls_.certificate_pem && tls->key_pem == tls_.key_pem &&
      tls->client_ca_pem == tls_.client_ca_pem && tls->client_required == tls_.client_required) {
    return tls_context_;
  }
  try {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    SSL_CTX* native = context->native_handle();
    SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
    // A session that is taken up again would bring the client's certificate of then.
    SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    context->set_password_callback([](size_t, asio::ssl::context::password_purpose) { return std::string(); });
    context->use_certificate_chain(asio::buffer(tls->certificate_pem));
    context->use_private_key(asio::buffer(tls->key_pem), asio::ssl::context::pem);
    if (SSL_CTX_check_private_key(native) != 1) throw std::runtime_error("the key does not belong to the certificate");
    if (!tls->client_ca_pem.empty()) {
      context->add_certificate_authority(asio::buffer(tls->client_ca_pem));
      context->set_verify_mode(tls->client_required ? asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert
                                                    : asio::ssl::verify_peer);
    }
    tls_context_ = std::move(context);
    tls_ = *std::move(tls);
  } catch (const std::exception& thrown) {
    spdlog::warn("{}: a certificate that cannot be used ({}): {}", options_.name, thrown.what(),
                 tls_context_ == nullptr ? "connections are closed" : "the last one stays in use");
  }
  return tls_context_;
}

}  // namespace

std::string_view ServerRequest::Header(std::string_view name) const { return FindHeader(headers, name); }
std::string_view ServerRequest::Query(std::string_view name) const { return FindHeader(query, name); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options, Handler handler) {
  auto server = std::make_unique<ServerImpl>(std::move(options), std::move(handler));
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace tf::http
