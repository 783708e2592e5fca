#include "link/listener.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>

#include "absl/strings/str_cat.h"
#include "link/hello.h"
#include "link/link_connection.h"
#include "link/socket.h"

namespace tf::link {
namespace {

using Clock = std::chrono::steady_clock;

// A socket between accept(2) and its place in a connection.
struct Newcomer {
  enum class Stage { kTls, kHello, kWaitsForControl };

  std::unique_ptr<Stream> stream;
  Stage stage = Stage::kTls;
  short events = POLLIN;
  Deadline deadline;
  Peer peer;
  HelloReader reader;
  Token token{};  // kWaitsForControl
  bool done = false;
};

class LinkListener final : public Listener {
 public:
  LinkListener(ConnectionString address, const ListenOptions& options, Fd socket, Fd wake)
      : address_(std::move(address)), options_(options), socket_(std::move(socket)), wake_(std::move(wake)) {}
  ~LinkListener() override;

  absl::StatusOr<std::unique_ptr<Connection>> Accept(Deadline deadline) override;
  void Shutdown() override;
  const ConnectionString& address() const override { return address_; }

  void SetTls(std::shared_ptr<TlsContext> tls) { tls_ = std::move(tls); }
  // The socket file, to be removed at the end if it is still this one.
  void SetPath(std::string path, const struct stat& info) {
    path_ = std::move(path);
    inode_ = info.st_ino;
  }

 private:
  void AcceptAll();
  void Add(Fd fd, const SocketAddress& from);
  std::unique_ptr<Connection> Progress(Newcomer& newcomer);
  std::unique_ptr<Connection> Greeted(Newcomer& newcomer, const Hello& hello);
  std::unique_ptr<Connection> JoinSession(Newcomer& newcomer, const Hello& hello);
  bool Answer(Newcomer& newcomer, Hello answer, std::span<const int> fds = {});
  void Refuse(Newcomer& newcomer, const absl::Status& why, bool tell);

  ConnectionString address_;
  const ListenOptions options_;
  const Fd socket_;
  const Fd wake_;
  std::shared_ptr<TlsContext> tls_;
  std::string path_;
  ino_t inode_ = 0;
  std::list<Newcomer> newcomers_;       // oldest first
  Deadline accept_again_ = Deadline();  // after the process ran out of descriptors
};

LinkListener::~LinkListener() {
  struct stat info{};
  if (!path_.empty() && lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_) unlink(path_.c_str());
}

void LinkListener::Shutdown() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

absl::StatusOr<std::unique_ptr<Connection>> LinkListener::Accept(Deadline deadline) {
  std::vector<pollfd> polled;
  for (;;) {
    const Deadline now = Clock::now();
    Deadline until = deadline;
    polled.assign({{.fd = wake_.get(), .events = POLLIN, .revents = 0}});
    for (Newcomer& newcomer : newcomers_) {
      if (newcomer.deadline <= now && !newcomer.done) {
        Refuse(newcomer, absl::DeadlineExceededError("no complete hello in time"), /*tell=*/false);
      }
    }
    newcomers_.remove_if([](const Newcomer& newcomer) { return newcomer.done; });
    for (const Newcomer& newcomer : newcomers_) {
      until = std::min(until, newcomer.deadline);
      polled.push_back({.fd = newcomer.stream->fd(), .events = newcomer.events, .revents = 0});
    }
    const size_t listening = polled.size();
    if (now >= accept_again_) {
      polled.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
    } else {
      until = std::min(until, accept_again_);
    }
    int timeout = -1;
    if (until != kForever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now);
      timeout = static_cast<int>(std::min<int64_t>(left.count(), 60'000));
    }
    const int ready = poll(polled.data(), polled.size(), timeout);
    if (ready < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("the listener cannot wait for clients: ", std::strerror(errno)));
    }
    if (ready > 0 && polled[0].revents != 0) return absl::CancelledError("the listener was shut down");
    if (ready <= 0) {
      if (Clock::now() >= deadline) return absl::DeadlineExceededError("no client connected in time");
      continue;
    }
    size_t index = 1;
    for (auto it = newcomers_.begin(); it != newcomers_.end(); ++it, ++index) {
      if (polled[index].revents == 0 || it->done) continue;
      if (std::unique_ptr<Connection> connection = Progress(*it)) {
        return connection;  // finished newcomers are removed by the next call
      }
    }
    if (polled.size() > listening && polled[listening].revents != 0) AcceptAll();
  }
}

void LinkListener::AcceptAll() {
  for (;;) {
    SocketAddress from;
    from.size = sizeof(from.storage);
    Fd fd(accept4(socket_.get(), from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      Add(std::move(fd), from);
      continue;
    }
    if (errno == EAGAIN) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (options_.on_refused) {
        options_.on_refused(absl::StrCat("cannot take another client for now: ", std::strerror(errno)));
      }
      accept_again_ = Clock::now() + std::chrono::milliseconds(100);
      return;
    }
    // All else concerns the one connection that is gone again.
  }
}

void LinkListener::Add(Fd fd, const SocketAddress& from) {
  Newcomer newcomer;
  newcomer.deadline = After(options_.hello_timeout);
  newcomer.peer.kind = address_.kind;
  if (address_.kind == ConnectionString::Kind::kShmem) {
    newcomer.peer.address = path_;
    absl::StatusOr<PeerCredentials> credentials = CheckPeerCredentials(fd.get(), path_);
    newcomer.stream = std::make_unique<Stream>(std::move(fd), Stream::Kind::kUnix);
    if (!credentials.ok()) {
      Refuse(newcomer, credentials.status(), /*tell=*/true);
      return;
    }
    newcomer.peer.pid = credentials->pid;
    newcomer.peer.uid = credentials->uid;
    newcomer.stage = Newcomer::Stage::kHello;
  } else {
    newcomer.peer.address = Describe(from);
    TuneTcp(fd.get(), /*control=*/false);
    if (tls_ != nullptr) {
      absl::StatusOr<SslPtr> ssl = tls_->Wrap(fd.get());
      if (!ssl.ok()) return;
      newcomer.stream = std::make_unique<Stream>(std::move(fd), tls_, *std::move(ssl));
      newcomer.peer.encrypted = true;
    } else {
      newcomer.stream = std::make_unique<Stream>(std::move(fd), Stream::Kind::kTcp);
      newcomer.stage = Newcomer::Stage::kHello;
    }
  }
  const size_t waiting = static_cast<size_t>(
      std::count_if(newcomers_.begin(), newcomers_.end(), [](const Newcomer& one) { return !one.done; }));
  if (waiting >= options_.max_pending) {
    const auto oldest =
        std::find_if(newcomers_.begin(), newcomers_.end(), [](const Newcomer& one) { return !one.done; });
    Refuse(*oldest, absl::ResourceExhaustedError("too many unfinished hellos"), /*tell=*/false);
  }
  newcomers_.push_back(std::move(newcomer));
}

// Tells the log, and the client if it can be expected to understand; then closes.
void LinkListener::Refuse(Newcomer& newcomer, const absl::Status& why, bool tell) {
  if (tell) {
    Hello refusal;
    refusal.role = Hello::Role::kRefuse;
    refusal.protocol_hash = options_.protocol_hash;
    refusal.program_version = options_.program_version;
    refusal.message = std::string(why.message());
    Answer(newcomer, std::move(refusal));
  }
  if (options_.on_refused) {
    options_.on_refused(absl::StrCat("client at ", newcomer.peer.address,
                                     newcomer.peer.pid != 0 ? absl::StrCat(" (process ", newcomer.peer.pid, ")") : "",
                                     " refused: ", why.message()));
  }
  newcomer.done = true;
  newcomer.stream = nullptr;
}

// The answer fits the empty buffer of a new socket; a client that managed to fill it is not waited for.
bool LinkListener::Answer(Newcomer& newcomer, Hello answer, std::span<const int> fds) {
  const std::vector<std::byte> bytes = FormatHello(answer, fds.size());
  size_t at = 0;
  while (at < bytes.size()) {
    const iovec piece{.iov_base = const_cast<std::byte*>(bytes.data()) + at, .iov_len = bytes.size() - at};
    const Stream::Result result = newcomer.stream->Write({&piece, 1}, fds);
    if (result.outcome != Stream::Outcome::kDone) return false;
    fds = {};
    at += result.size;
  }
  return true;
}

std::unique_ptr<Connection> LinkListener::Progress(Newcomer& newcomer) {
  if (newcomer.stage == Newcomer::Stage::kTls) {
    const Stream::Result result = newcomer.stream->Handshake();
    if (result.outcome == Stream::Outcome::kAgain) {
      newcomer.events = result.events;
      return nullptr;
    }
    if (result.outcome == Stream::Outcome::kClosed) {
      Refuse(newcomer, absl::PermissionDeniedError(absl::StrCat("no valid link key (", result.why, ")")),
             /*tell=*/false);
      return nullptr;
    }
    newcomer.stage = Newcomer::Stage::kHello;
    newcomer.events = POLLIN;
  }
  if (newcomer.stage == Newcomer::Stage::kWaitsForControl) {
    // Nothing may come before the session is complete: this is the client's end, or nonsense.
    Refuse(newcomer, absl::UnavailableError("it went before its second socket arrived"), /*tell=*/false);
    return nullptr;
  }
  absl::StatusOr<std::optional<Hello>> hello = newcomer.reader.Step(*newcomer.stream, newcomer.events);
  if (!hello.ok()) {
    Refuse(newcomer, hello.status(), /*tell=*/absl::IsFailedPrecondition(hello.status()));
    return nullptr;
  }
  if (!hello->has_value()) return nullptr;
  return Greeted(newcomer, **hello);
}

std::unique_ptr<Connection> LinkListener::Greeted(Newcomer& newcomer, const Hello& hello) {
  Hello answer;
  answer.role = Hello::Role::kAccept;
  answer.protocol_hash = options_.protocol_hash;
  answer.program_version = options_.program_version;
  if (absl::Status status = CheckProtocol(hello, answer); !status.ok()) {
    Refuse(newcomer, status, /*tell=*/true);
    return nullptr;
  }
  if (hello.role == Hello::Role::kJoin && address_.kind == ConnectionString::Kind::kNative) {
    return JoinSession(newcomer, hello);
  }
  if (hello.role != Hello::Role::kConnect) {
    Refuse(newcomer, absl::InvalidArgumentError("the first hello of a client was not one"), /*tell=*/true);
    return nullptr;
  }
  newcomer.peer.program_version = hello.program_version;
  newcomer.peer.text = hello.text;
  if (options_.admit) {
    absl::StatusOr<std::string> text = options_.admit(newcomer.peer);
    if (!text.ok()) {
      Refuse(newcomer, text.status(), /*tell=*/true);
      return nullptr;
    }
    answer.text = *std::move(text);
  }

  if (address_.kind == ConnectionString::Kind::kNative) {
    if (getrandom(newcomer.token.data(), newcomer.token.size(), 0) != static_cast<ssize_t>(newcomer.token.size())) {
      Refuse(newcomer, absl::InternalError("the system gives no random bytes"), /*tell=*/true);
      return nullptr;
    }
    answer.token = newcomer.token;
    if (!Answer(newcomer, std::move(answer))) {
      Refuse(newcomer, absl::UnavailableError("it does not take the answer to its hello"), /*tell=*/false);
      return nullptr;
    }
    newcomer.stage = Newcomer::Stage::kWaitsForControl;
    newcomer.events = POLLRDHUP;
    return nullptr;
  }

  const size_t capacity = RingSegment::CapacityFor(address_.mib);
  absl::StatusOr<RingSegment> segment = RingSegment::Create(capacity);
  if (!segment.ok()) {
    Refuse(newcomer, segment.status(), /*tell=*/true);
    return nullptr;
  }
  answer.ring_bytes = capacity;
  const int fd = segment->fd();
  if (!Answer(newcomer, std::move(answer), {&fd, 1})) {
    Refuse(newcomer, absl::UnavailableError("it does not take the answer to its hello"), /*tell=*/false);
    return nullptr;
  }
  newcomer.done = true;
  return std::make_unique<LinkConnection>(std::move(newcomer.peer), *std::move(segment), std::move(newcomer.stream),
                                          LinkConnection::Side::kWorker, options_.spin);
}

std::unique_ptr<Connection> LinkListener::JoinSession(Newcomer& newcomer, const Hello& hello) {
  const auto session = std::find_if(newcomers_.begin(), newcomers_.end(), [&](const Newcomer& other) {
    return !other.done && other.stage == Newcomer::Stage::kWaitsForControl &&
           CRYPTO_memcmp(other.token.data(), hello.token.data(), hello.token.size()) == 0;
  });
  if (session == newcomers_.end()) {
    Refuse(newcomer, absl::NotFoundError("the session that this socket wants to join does not exist (any more)"),
           /*tell=*/true);
    return nullptr;
  }
  Hello answer;
  answer.role = Hello::Role::kAccept;
  answer.protocol_hash = options_.protocol_hash;
  answer.program_version = options_.program_version;
  if (!Answer(newcomer, std::move(answer))) {
    Refuse(newcomer, absl::UnavailableError("it does not take the answer to its hello"), /*tell=*/false);
    return nullptr;
  }
  TuneTcp(newcomer.stream->fd(), /*control=*/true);
  newcomer.done = true;
  session->done = true;
  return std::make_unique<LinkConnection>(std::move(session->peer), std::move(session->stream),
                                          std::move(newcomer.stream), options_.spin);
}

absl::StatusOr<Fd> ListenTcp(ConnectionString& where) {
  absl::StatusOr<SocketAddress> address = TcpAddress(where.ip, where.port);
  if (!address.ok()) return address.status();
  absl::StatusOr<Fd> fd = NewSocket(address->storage.ss_family);
  if (!fd.ok()) return fd.status();
  const int on = 1;
  setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd->get(), address->get(), address->size) != 0 || listen(fd->get(), SOMAXCONN) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("port ", where.port, " of ", where.ip,
                                                   " is in use by another program: stop it or choose another port"));
    }
    if (error == EADDRNOTAVAIL) {
      return absl::InvalidArgumentError(absl::StrCat(where.ip, " is not an address of this machine"));
    }
    return absl::UnavailableError(absl::StrCat("cannot listen on ", Describe(*address), ": ", std::strerror(error)));
  }
  getsockname(fd->get(), address->get(), &address->size);
  where.port = address->port();
  return fd;
}

// Is somebody listening behind this socket file?
bool SomebodyListens(const SocketAddress& address) {
  const absl::StatusOr<Fd> fd = NewSocket(AF_UNIX);
  if (!fd.ok() || connect(fd->get(), address.get(), address.size) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

absl::StatusOr<Fd> ListenUnix(const std::string& path, const std::string& folder) {
  absl::StatusOr<SocketAddress> address = UnixAddress(path);
  if (!address.ok()) return address.status();
  // Two workers that find the same dead file must not both replace it. Others may hold this lock for reasons of their
  // own, so it is not waited for long.
  const Fd lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) {
    return absl::NotFoundError(
        absl::StrCat("the folder ", folder, " for the worker's socket cannot be opened: ", std::strerror(errno)));
  }
  for (int tries = 0; flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists and is not a socket: remove it or choose another name"));
    }
    if (SomebodyListens(*address)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " is in use by another worker: choose another name"));
    }
    if (unlink(path.c_str()) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot replace the dead worker's socket ", path, ": ", std::strerror(errno)));
    }
  }
  absl::StatusOr<Fd> fd = NewSocket(AF_UNIX);
  if (!fd.ok()) return fd.status();
  fchmod(fd->get(), 0600);  // the file takes this mode, whatever the umask
  if (bind(fd->get(), address->get(), address->size) != 0 || listen(fd->get(), SOMAXCONN) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", path, ": ", std::strerror(errno),
                                               errno == ENOSPC ? " (free space there or give another folder)" : ""));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listen(const ConnectionString& where, const ListenOptions& options) {
  if (absl::Status status = ValidateConnectionString(where); !status.ok()) return status;
  ConnectionString address = where;
  const bool tcp = where.kind == ConnectionString::Kind::kNative;
  if (tcp && !options.key && !options.insecure && !IsLoopback(where.ip)) {
    return absl::FailedPreconditionError(
        absl::StrCat("listening on ", where.ip,
                     " opens the worker to other machines and needs a link key; give one, or "
                     "listen on 127.0.0.1"));
  }
  const std::string path = tcp ? "" : SocketPath(options.folder, where.name);
  absl::StatusOr<Fd> fd = tcp ? ListenTcp(address) : ListenUnix(path, options.folder);
  if (!fd.ok()) return fd.status();
  struct stat info{};
  if (!tcp && lstat(path.c_str(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat("the worker's socket ", path, " was removed at once"));
  }
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::InternalError(absl::StrCat("cannot make an eventfd: ", std::strerror(errno)));
  auto listener = std::make_unique<LinkListener>(std::move(address), options, *std::move(fd), std::move(wake));
  if (!tcp) listener->SetPath(path, info);
  if (tcp && options.key) {
    absl::StatusOr<std::shared_ptr<TlsContext>> tls = TlsContext::Create(*options.key, TlsContext::Side::kServer);
    if (!tls.ok()) return tls.status();
    listener->SetTls(*std::move(tls));
  }
  return listener;
}

}  // namespace tf::link
