#include "support/fault_proxy.h"

#include <cstdlib>
#include <deque>

#include "absl/strings/str_cat.h"

namespace tf::testing {

namespace {

constexpr size_t kMaxBody = 64 << 20;
constexpr size_t kRemembered = 32;  // events of a watch, for replays

std::string StatusBody(int code, const std::string& reason, absl::Duration retry_after) {
  std::string body = absl::StrCat("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",",
                                  "\"message\":\"injected\",\"reason\":\"", reason, "\",\"code\":", code);
  if (retry_after > absl::ZeroDuration()) {
    absl::StrAppend(&body, ",\"details\":{\"retryAfterSeconds\":", absl::ToInt64Seconds(retry_after), "}");
  }
  return body + "}";
}

// Sends a body in pieces, and stops for good where it is to be cut.
class Out {
 public:
  Out(const Fault& fault, Answer& answer) : fault_(fault), answer_(answer) {}

  // False: it is over, the peer is gone or the cut has come.
  bool Body(std::string_view bytes) {
    bool cut = false;
    if (fault_.cut_after_bytes >= 0 && sent_ + static_cast<int64_t>(bytes.size()) > fault_.cut_after_bytes) {
      bytes = bytes.substr(0, static_cast<size_t>(fault_.cut_after_bytes - sent_));
      cut = true;
    }
    sent_ += static_cast<int64_t>(bytes.size());
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, fault_.piece == 0 ? bytes.size() : fault_.piece);
      bytes.remove_prefix(piece.size());
      if (!answer_.Chunk(piece)) return false;
      if (fault_.pause > absl::ZeroDuration() && answer_.wire().Hold(fault_.pause)) return false;
    }
    cut_ = cut;
    return !cut;
  }
  bool cut() const { return cut_; }

 private:
  const Fault& fault_;
  Answer& answer_;
  int64_t sent_ = 0;
  bool cut_ = false;
};

int StatusOf(const HttpHead& head) { return std::atoi(head.first_line.substr(head.first_line.find(' ') + 1).c_str()); }

}  // namespace

FaultProxy::FaultProxy(FaultProxyOptions options) : options_(std::move(options)) {
  if (options_.server_tls) context_ = ClientContext(options_.identity.certificate_pem, options_.identity.key_pem);
  server_ = std::make_unique<ScriptedServer>(
      [this](const ScriptedRequest& request, Answer& answer) { Serve(request, answer); }, options_.tls);
}

FaultProxy::~FaultProxy() {
  server_.reset();
  SSL_CTX_free(context_);
}

std::map<std::string, int64_t> FaultProxy::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void FaultProxy::Count(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_[what];
}

void FaultProxy::Serve(const ScriptedRequest& request, Answer& answer) {
  Fault fault;
  if (options_.plan && !calm_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int nth = ++nth_[absl::StrCat(request.method, " ", request.path, request.IsWatch() ? " watch" : "")];
    fault = options_.plan(request, nth);
  }
  Count(request.IsWatch() ? "watch" : request.method == "GET" ? "get" : "write");
  if (fault.refuse) {
    Count("refuse");
    return answer.Cut();
  }
  if (fault.answer != 0) {
    Count(absl::StrCat("answer ", fault.answer));
    Answer::Headers headers;
    if (fault.retry_after > absl::ZeroDuration()) {
      headers.emplace_back("Retry-After", absl::StrCat(absl::ToInt64Seconds(fault.retry_after)));
    }
    answer.Send(fault.answer, StatusBody(fault.answer, fault.reason, fault.retry_after), headers);
    return;
  }
  if (fault.stale) {
    std::string body;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      body = captured_[request.path];
    }
    if (!body.empty()) {
      Count("stale");
      answer.Send(200, body);
      return;
    }
  }

  absl::StatusOr<std::unique_ptr<Wire>> upstream = Wire::Connect(options_.server_port, context_);
  if (!upstream.ok()) return answer.Cut();
  std::string head = absl::StrCat(request.method, " ", request.target,
                                  " HTTP/1.1\r\nHost: 127.0.0.1:", options_.server_port, "\r\nConnection: close\r\n");
  for (const auto& [name, value] : request.head.headers) {
    if (name == "host" || name == "connection" || name == "content-length" || name == "transfer-encoding" ||
        name == "accept-encoding" || (name == "authorization" && !options_.token.empty())) {
      continue;
    }
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  if (!options_.token.empty()) absl::StrAppend(&head, "Authorization: Bearer ", options_.token, "\r\n");
  if (!request.body.empty()) absl::StrAppend(&head, "Content-Length: ", request.body.size(), "\r\n");
  head += "\r\n";
  std::string buffer;
  HttpHead reply;
  if (!(*upstream)->Send(head) || !(*upstream)->Send(request.body) || !ReadHead(**upstream, buffer, reply)) {
    return answer.Cut();
  }
  if (request.IsWatch() && StatusOf(reply) == 200) {
    PassWatch(fault, answer, **upstream, buffer, reply);
  } else {
    PassWhole(request, fault, answer, **upstream, buffer, reply);
  }
}

void FaultProxy::PassWhole(const ScriptedRequest& request, const Fault& fault, Answer& answer, Wire& upstream,
                           std::string& buffer, const HttpHead& head) {
  BodyReader reader(head, true);
  std::string body;
  while (true) {
    body += reader.Take(buffer);
    if (reader.done() || body.size() > kMaxBody) break;
    if (!upstream.Receive(buffer)) break;
  }
  const int status = StatusOf(head);
  if (fault.lose_answer) {
    Count("lose");
    return answer.Cut();
  }
  if (options_.capture_lists && request.method == "GET" && status == 200 && request.Query("continue").empty() &&
      body.find("\"continue\":\"") == std::string::npos) {
    const std::lock_guard<std::mutex> lock(mutex_);
    captured_.emplace(request.path, body);
  }
  Answer::Headers headers;
  for (const auto& [name, value] : head.headers) {
    if (name == "retry-after" || name == "warning" || name == "audit-id") headers.emplace_back(name, value);
  }
  if (fault.cut_after_bytes < 0 && fault.piece == 0) {
    answer.Send(status, body, headers);
    return;
  }
  answer.Begin(status, headers);
  Out out(fault, answer);
  if (out.Body(body)) {
    answer.End();
  } else if (out.cut()) {
    Count("cut");
    answer.Close();
  }
}

void FaultProxy::PassWatch(const Fault& fault, Answer& answer, Wire& upstream, std::string& buffer,
                           const HttpHead& head) {
  if (!answer.Begin()) return;
  BodyReader reader(head, true);
  Out out(fault, answer);
  std::string pending;
  std::deque<std::string> recent;
  int64_t events = 0;
  while (true) {
    // The things that happen between two events, before the next is waited for.
    if (events == fault.end_after_events) {
      Count("end");
      answer.End();
      return;
    }
    if (events == fault.silent_after_events) {
      Count("silent");
      answer.Hold();
      return;
    }
    if (events == fault.error_after_events) {
      Count(absl::StrCat("error ", fault.error_code));
      const std::string reason = fault.error_code == 410 ? "Expired" : "InternalError";
      out.Body(absl::StrCat(
          "{\"type\":\"ERROR\",\"object\":", StatusBody(fault.error_code, reason, absl::ZeroDuration()), "}\n"));
      answer.End();
      return;
    }
    size_t line_end;
    while ((line_end = pending.find('\n')) == std::string::npos) {
      if (pending.size() > kMaxBody) return answer.Cut();
      bool peer_ready = false;
      if (buffer.empty()) {
        upstream.Wait(absl::InfiniteDuration(), &answer.wire(), &peer_ready);
        if (answer.wire().PeerGone()) return;
        if (!upstream.Receive(buffer)) return answer.Cut();
      }
      const size_t before = buffer.size();
      pending += reader.Take(buffer);
      if (reader.done() && pending.find('\n') == std::string::npos) {
        answer.End();
        return;
      }
      if (buffer.size() == before && !upstream.Receive(buffer)) return answer.Cut();
    }
    const std::string line = pending.substr(0, line_end + 1);
    pending.erase(0, line_end + 1);
    if (events == fault.cut_after_events) {
      Count("cut");
      out.Body(std::string_view(line).substr(0, line.size() / 2));
      return answer.Close();
    }
    ++events;
    bool goes_on = out.Body(line);
    if (goes_on && fault.duplicate_every > 0 && events % fault.duplicate_every == 0) {
      Count("duplicate");
      goes_on = out.Body(line);
    }
    if (fault.replay_every > 0) {
      recent.push_back(line);
      if (recent.size() > kRemembered) recent.pop_front();
      if (goes_on && events % fault.replay_every == 0) {
        Count("replay");
        goes_on = out.Body(recent.front());
      }
    }
    if (!goes_on) {
      if (out.cut()) Count("cut");
      return answer.Close();
    }
  }
}

}  // namespace tf::testing
