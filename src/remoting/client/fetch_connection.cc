#include "remoting/client/fetch_connection.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "link/fd.h"

namespace tf::remoting {
namespace {

constexpr size_t kMostBytes = 64 << 10;
// Longer than the operator holds an answer back.
constexpr absl::Duration kAnswerLimit = absl::Seconds(40);

struct Url {
  std::string host;
  std::string port = "80";
  std::string target = "/";
};

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  Url url;
  if (!text.starts_with(kScheme)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected http://HOST[:PORT]/PATH, found \"", std::string(text), "\""));
  }
  text.remove_prefix(kScheme.size());
  const size_t slash = text.find('/');
  std::string_view place = text.substr(0, slash);
  if (slash != std::string_view::npos) url.target = std::string(text.substr(slash));
  const size_t bracket = place.rfind(']');
  const size_t colon = place.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    url.port = std::string(place.substr(colon + 1));
    place = place.substr(0, colon);
  }
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  url.host = std::string(place);
  const bool odd = std::any_of(url.target.begin(), url.target.end(), [](char c) { return c <= ' ' || c == 0x7f; });
  if (url.host.empty() || url.port.empty() || odd) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected http://HOST[:PORT]/PATH, found \"", kScheme.data(), std::string(text), "\""));
  }
  return url;
}

absl::Status Await(int fd, short events, absl::Time deadline) {
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::UnavailableError("no answer in time");
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::UnavailableError(std::strerror(errno));
  }
}

absl::StatusOr<link::Fd> Connect(const Url& url, absl::Time deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(url.host, ":", url.port, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    link::Fd fd(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
    if (fd.get() < 0) continue;
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0 && errno != EINPROGRESS) {
      why = std::strerror(errno);
      continue;
    }
    if (absl::Status status = Await(fd.get(), POLLOUT, deadline); !status.ok()) {
      why = std::string(status.message());
      continue;
    }
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
    why = std::strerror(error);
  }
  return absl::UnavailableError(absl::StrCat(url.host, ":", url.port, ": ", why));
}

struct Answer {
  int status = 0;
  std::string body;
};

// One question on a connection of its own. Unavailable: none was understood.
absl::StatusOr<Answer> Ask(const Url& url, const std::string& token, absl::Time deadline) {
  absl::StatusOr<link::Fd> fd = Connect(url, deadline);
  if (!fd.ok()) return fd.status();
  const std::string host = url.host.find(':') == std::string::npos ? url.host : absl::StrCat("[", url.host, "]");
  // HTTP/1.0: the answer ends with the connection, whole.
  std::string request = absl::StrCat("GET ", url.target, " HTTP/1.0\r\nHost: ", host, ":", url.port,
                                     "\r\nAuthorization: Bearer ", token, "\r\nConnection: close\r\n\r\n");
  for (std::string_view left = request; !left.empty();) {
    const ssize_t sent = send(fd->get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      left.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      if (absl::Status status = Await(fd->get(), POLLOUT, deadline); !status.ok()) return status;
    } else {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = recv(fd->get(), buffer, sizeof buffer, 0);
    if (got == 0) break;
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
      if (text.size() > kMostBytes) return absl::UnavailableError("an answer of more than 64 KiB");
    } else if (errno == EAGAIN || errno == EINTR) {
      if (absl::Status status = Await(fd->get(), POLLIN, deadline); !status.ok()) return status;
    } else {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
  Answer answer;
  const size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.") || text.size() < 12 || end == std::string::npos ||
      !absl::SimpleAtoi(text.substr(9, 3), &answer.status)) {
    return absl::UnavailableError("an answer that is no HTTP");
  }
  answer.body = std::string(absl::StripAsciiWhitespace(text.substr(end + 4)));
  return answer;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected the pod's token in ", path, ", found no such file that can be read"));
  }
  std::string token{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return std::string(absl::StripAsciiWhitespace(token));
}

// For what will not change by asking again.
bool IsFinal(int status) { return status == 400 || status == 401 || status == 403; }

}  // namespace

absl::StatusOr<std::string> FetchConnection(std::string_view url, const FetchOptions& options) {
  const absl::StatusOr<Url> where = ParseUrl(url);
  if (!where.ok()) return where.status();
  const absl::Time deadline = absl::Now() + options.limit;
  std::string said;
  std::minstd_rand random(std::random_device{}());
  for (;;) {
    const absl::StatusOr<std::string> token = ReadToken(options.token_file);
    if (!token.ok()) return token.status();
    const absl::StatusOr<Answer> answer = Ask(*where, *token, std::min(deadline, absl::Now() + kAnswerLimit));
    if (answer.ok() && answer->status == 200) return answer->body;
    // The last question may be cut short by our own limit: what was said before tells more.
    if (answer.ok()) {
      said = absl::StrCat(answer->status, " ", answer->body);
    } else if (said.empty() || absl::Now() < deadline) {
      said = std::string(answer.status().message());
    }
    if (answer.ok() && IsFinal(answer->status)) {
      return absl::PermissionDeniedError(absl::StrCat("the operator refuses to name a worker: ", said));
    }
    // Those that wait for one worker are not to come back in step.
    const absl::Duration pause = options.pause * std::uniform_real_distribution<double>(1.0, 1.5)(random);
    if (absl::Now() + pause >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("no worker after ", absl::FormatDuration(options.limit), ": ", said));
    }
    absl::SleepFor(pause);
  }
}

}  // namespace tf::remoting
