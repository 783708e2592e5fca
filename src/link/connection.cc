#include "link/connection.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "link/hello.h"
#include "link/link_connection.h"
#include "link/socket.h"

namespace tf::link {
namespace {

absl::Status NoAnswer(const std::string& where) {
  return absl::UnavailableError(absl::StrCat("no answer from the worker at ", where, " in time: is it running?"));
}

absl::Status CannotConnect(const std::string& where, int error) {
  if (error == ETIMEDOUT) return NoAnswer(where);
  if (error == ECONNREFUSED || error == ENOENT) {
    return absl::UnavailableError(
        absl::StrCat("no worker listens at ", where, ": start one, or correct the connection string"));
  }
  const std::string text = absl::StrCat("cannot connect to the worker at ", where, ": ", std::strerror(error));
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

absl::Status Handshake(Stream& stream, const std::string& where, Deadline deadline) {
  for (;;) {
    const Stream::Result result = stream.Handshake();
    switch (result.outcome) {
      case Stream::Outcome::kDone:
        return absl::OkStatus();
      case Stream::Outcome::kAgain:
        if (!PollUntil(stream.fd(), result.events, deadline)) return NoAnswer(where);
        break;
      case Stream::Outcome::kClosed:
        return absl::PermissionDeniedError(
            absl::StrCat("the worker at ", where, " and this client do not share a link key, or the worker uses none (",
                         result.why, ")"));
    }
  }
}

// Says hello on the stream and returns the worker's acceptance.
absl::StatusOr<Hello> Greet(Stream& stream, const Hello& hello, const std::string& where, Deadline deadline) {
  const std::vector<std::byte> bytes = FormatHello(hello);
  for (size_t at = 0; at < bytes.size();) {
    const iovec piece{.iov_base = const_cast<std::byte*>(bytes.data()) + at, .iov_len = bytes.size() - at};
    const Stream::Result result = stream.Write({&piece, 1});
    if (result.outcome == Stream::Outcome::kDone) at += result.size;
    if (result.outcome == Stream::Outcome::kClosed) return absl::UnavailableError(result.why);
    if (result.outcome == Stream::Outcome::kAgain && !PollUntil(stream.fd(), result.events, deadline)) {
      return NoAnswer(where);
    }
  }
  HelloReader reader;
  for (;;) {
    short events = 0;
    absl::StatusOr<std::optional<Hello>> answer = reader.Step(stream, events);
    if (absl::IsUnavailable(answer.status())) {
      // A worker with a key takes a plain hello for broken TLS, and one without a key takes TLS for garbage. With a
      // wrong key the alert comes only now, after this side's part of the handshake.
      return stream.encrypted()
                 ? absl::PermissionDeniedError(
                       absl::StrCat("the worker at ", where, " refused the link key (", answer.status().message(), ")"))
                 : absl::UnavailableError(absl::StrCat("the worker at ", where,
                                                       " closed the connection during the hello; it may be overloaded, "
                                                       "or it may require a link key"));
    }
    if (!answer.ok()) return answer.status();
    if (answer->has_value()) {
      Hello& worker = **answer;
      if (worker.role == Hello::Role::kRefuse) {
        return absl::FailedPreconditionError(Printable(worker.message));
      }
      if (worker.role != Hello::Role::kAccept) {
        return absl::UnavailableError(absl::StrCat("what answers at ", where, " is not a worker"));
      }
      if (absl::Status status = CheckProtocol(hello, worker); !status.ok()) return status;
      return std::move(worker);
    }
    if (!PollUntil(stream.fd(), events, deadline)) return NoAnswer(where);
  }
}

Hello FirstHello(const ConnectOptions& options) {
  Hello hello;
  hello.role = Hello::Role::kConnect;
  hello.protocol_hash = options.protocol_hash;
  hello.program_version = options.program_version;
  hello.text = options.text;
  return hello;
}

absl::StatusOr<std::unique_ptr<Stream>> OpenTcp(const SocketAddress& address, const std::string& where,
                                                const std::shared_ptr<TlsContext>& tls, bool control,
                                                Deadline deadline) {
  absl::StatusOr<Fd> fd = NewSocket(address.storage.ss_family);
  if (!fd.ok()) return fd.status();
  TuneTcp(fd->get(), control);
  if (const int error = ConnectUntil(fd->get(), address, deadline); error != 0) return CannotConnect(where, error);
  if (tls == nullptr) return std::make_unique<Stream>(*std::move(fd), Stream::Kind::kTcp);
  absl::StatusOr<SslPtr> ssl = tls->Wrap(fd->get());
  if (!ssl.ok()) return ssl.status();
  auto stream = std::make_unique<Stream>(*std::move(fd), tls, *std::move(ssl));
  if (absl::Status status = Handshake(*stream, where, deadline); !status.ok()) return status;
  return stream;
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectTcp(const ConnectionString& at, const ConnectOptions& options,
                                                       Deadline deadline) {
  if (!options.key && !options.insecure && !IsLoopback(at.ip)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the link to ", at.ip, " leaves this machine and needs a link key; give the key of the worker"));
  }
  absl::StatusOr<SocketAddress> address = TcpAddress(at.ip, at.port);
  if (!address.ok()) return address.status();
  std::shared_ptr<TlsContext> tls;
  if (options.key) {
    absl::StatusOr<std::shared_ptr<TlsContext>> context = TlsContext::Create(*options.key, TlsContext::Side::kClient);
    if (!context.ok()) return context.status();
    tls = *std::move(context);
  }
  const std::string where = Describe(*address);
  absl::StatusOr<std::unique_ptr<Stream>> data = OpenTcp(*address, where, tls, /*control=*/false, deadline);
  if (!data.ok()) return data.status();
  Hello hello = FirstHello(options);
  absl::StatusOr<Hello> worker = Greet(**data, hello, where, deadline);
  if (!worker.ok()) return worker.status();

  absl::StatusOr<std::unique_ptr<Stream>> control = OpenTcp(*address, where, tls, /*control=*/true, deadline);
  if (!control.ok()) return control.status();
  hello.role = Hello::Role::kJoin;
  hello.token = worker->token;
  absl::StatusOr<Hello> joined = Greet(**control, hello, where, deadline);
  if (!joined.ok()) return joined.status();

  Peer peer;
  peer.kind = ConnectionString::Kind::kNative;
  peer.program_version = std::move(worker->program_version);
  peer.text = std::move(worker->text);
  peer.address = where;
  peer.encrypted = tls != nullptr;
  return std::make_unique<LinkConnection>(std::move(peer), *std::move(data), *std::move(control), options.spin);
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectShm(const ConnectionString& at, const ConnectOptions& options,
                                                       Deadline deadline) {
  const std::string path = SocketPath(options.folder, at.name);
  absl::StatusOr<SocketAddress> address = UnixAddress(path);
  if (!address.ok()) return address.status();
  absl::StatusOr<Fd> fd = NewSocket(AF_UNIX);
  if (!fd.ok()) return fd.status();
  if (const int error = ConnectUntil(fd->get(), *address, deadline); error != 0) return CannotConnect(path, error);
  absl::StatusOr<PeerCredentials> credentials = CheckPeerCredentials(fd->get(), path);
  if (!credentials.ok()) return credentials.status();
  auto control = std::make_unique<Stream>(*std::move(fd), Stream::Kind::kUnix);
  absl::StatusOr<Hello> worker = Greet(*control, FirstHello(options), path, deadline);
  if (!worker.ok()) return worker.status();
  if (control->received_fds().size() != 1) {
    return absl::UnavailableError(absl::StrCat("the worker at ", path, " sent no shared memory"));
  }
  absl::StatusOr<RingSegment> segment =
      RingSegment::Open(std::move(control->received_fds().front()), worker->ring_bytes);
  control->received_fds().clear();
  if (!segment.ok()) return segment.status();

  Peer peer;
  peer.kind = ConnectionString::Kind::kShmem;
  peer.program_version = std::move(worker->program_version);
  peer.text = std::move(worker->text);
  peer.address = path;
  peer.pid = credentials->pid;
  peer.uid = credentials->uid;
  return std::make_unique<LinkConnection>(std::move(peer), *std::move(segment), std::move(control),
                                          LinkConnection::Side::kClient, options.spin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connect(const ConnectionString& where, const ConnectOptions& options) {
  if (absl::Status status = ValidateConnectionString(where); !status.ok()) return status;
  if (options.text.size() > kMaxHelloText) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text of a hello has at most ", kMaxHelloText, " bytes, got ", options.text.size()));
  }
  const Deadline deadline = After(options.timeout);
  return where.kind == ConnectionString::Kind::kNative ? ConnectTcp(where, options, deadline)
                                                       : ConnectShm(where, options, deadline);
}

}  // namespace tf::link
