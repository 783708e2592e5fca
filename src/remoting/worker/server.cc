#include "remoting/worker/server.h"

#include <pthread.h>

#include "absl/strings/str_cat.h"

namespace tf::remoting {

namespace {

constexpr size_t kMaxSessions = 4096;
constexpr absl::Duration kReapEvery = absl::Seconds(1);

std::string Name(const link::Peer& peer) {
  return absl::StrCat(peer.address, peer.pid != 0 ? absl::StrCat(" pid ", peer.pid) : "",
                      peer.encrypted ? " (TLS)" : "");
}

}  // namespace

Server::Server(link::Listener* listener, Card* card, std::function<void(const std::string&)> log)
    : listener_(listener), card_(card), log_(std::move(log)) {}

Server::~Server() {
  Stop();
  Reap(true);
}

void Server::Run() {
  while (!stopping_) {
    absl::StatusOr<std::unique_ptr<link::Connection>> connection = listener_->Accept(link::After(kReapEvery));
    Reap(false);
    if (!connection.ok()) {
      if (absl::IsCancelled(connection.status())) break;
      if (!absl::IsDeadlineExceeded(connection.status()) && log_) log_(std::string(connection.status().message()));
      continue;
    }
    std::lock_guard lock(lock_);
    if (running_.size() >= kMaxSessions) {
      if (log_) log_(absl::StrCat("refused ", Name((*connection)->peer()), ": ", kMaxSessions, " sessions are open"));
      continue;
    }
    Running& running = running_.emplace_back();
    running.session = std::make_unique<Session>(*std::move(connection), card_);
    if (log_) log_(absl::StrCat("session of ", Name(running.session->peer()), " begins"));
    running.thread = std::thread([this, &running] {
      pthread_setname_np(pthread_self(), "tf-session");
      absl::Status why = running.session->Run();
      std::string name = Name(running.session->peer());
      uint64_t calls = running.session->calls();
      // Here, so that what the client held is back as soon as the client is gone.
      std::unique_ptr<Session> gone;
      {
        std::lock_guard lock(lock_);
        gone = std::move(running.session);
        finished_calls_ += calls;
      }
      gone.reset();
      if (log_) log_(absl::StrCat("session of ", name, " ends after ", calls, " calls: ", why.message()));
      running.over = true;
    });
  }
  Reap(true);
}

void Server::Stop() {
  stopping_ = true;
  listener_->Shutdown();
  std::lock_guard lock(lock_);
  for (Running& running : running_) {
    if (running.session) running.session->Stop();
  }
}

void Server::Reap(bool all) {
  std::list<Running> over;
  {
    std::lock_guard lock(lock_);
    for (auto it = running_.begin(); it != running_.end();) {
      auto next = std::next(it);
      if (all || it->over) {
        if (it->session) it->session->Stop();
        over.splice(over.end(), running_, it);
      }
      it = next;
    }
  }
  for (Running& running : over) running.thread.join();
}

Server::Stats Server::stats() {
  std::lock_guard lock(lock_);
  Stats stats{.sessions = 0, .calls = finished_calls_};
  for (Running& running : running_) {
    if (!running.session) continue;
    ++stats.sessions;
    stats.calls += running.session->calls();
  }
  return stats;
}

}  // namespace tf::remoting
