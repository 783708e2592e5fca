#include "tcp_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tf::testing {
namespace {

struct Pipe {  // one direction
  int from = -1;
  int to = -1;
  std::string waiting = {};
  bool ended = false;
};

int Check(int result, const char* what) {
  if (result < 0) {
    std::perror(what);
    std::abort();
  }
  return result;
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

struct TcpRelay::State {
  uint16_t to_port = 0;
  uint16_t port = 0;
  int listener = -1;
  int wake = -1;
  std::atomic<bool> cut = false;
  std::atomic<bool> stop = false;
  std::vector<Pipe> pipes;  // of the thread, as the next
  bool was_cut = false;
  std::thread thread;

  void Accept();
  void Run();
  void CloseAll();
  static void Move(Pipe& pipe, short from_events, short to_events);
};

void TcpRelay::State::Accept() {
  const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  const int server = Check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  const sockaddr_in address = Loopback(to_port);
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0) {
    close(client);
    close(server);
    return;
  }
  pipes.push_back({client, server});
  pipes.push_back({server, client});
}

void TcpRelay::State::Move(Pipe& pipe, short from_events, short to_events) {
  char bytes[65536];
  if (pipe.waiting.empty() && !pipe.ended && from_events != 0) {
    const ssize_t count = recv(pipe.from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count > 0) {
      pipe.waiting.assign(bytes, count);
    } else if (count == 0 || errno != EAGAIN) {
      pipe.ended = true;
      shutdown(pipe.to, SHUT_WR);
    }
  }
  if (!pipe.waiting.empty() && (to_events != 0 || from_events != 0)) {
    const ssize_t count = send(pipe.to, pipe.waiting.data(), pipe.waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      pipe.waiting.erase(0, count);
    } else if (errno != EAGAIN) {
      pipe.waiting.clear();
      pipe.ended = true;
      shutdown(pipe.from, SHUT_RDWR);
    }
  }
}

void TcpRelay::State::Run() {
  while (!stop) {
    std::vector<pollfd> fds = {{wake, POLLIN, 0}};
    if (!cut) {
      fds.push_back({listener, POLLIN, 0});
      for (const Pipe& pipe : pipes) {
        fds.push_back({pipe.ended || !pipe.waiting.empty() ? -1 : pipe.from, POLLIN, 0});
        fds.push_back({pipe.waiting.empty() ? -1 : pipe.to, POLLOUT, 0});
      }
    }
    poll(fds.data(), fds.size(), -1);
    eventfd_t rung;
    if (fds[0].revents != 0) eventfd_read(wake, &rung);
    if (cut) {
      was_cut = true;
      continue;
    }
    if (std::exchange(was_cut, false)) CloseAll();
    if (fds.size() == 1 || pipes.size() * 2 + 2 != fds.size()) continue;
    for (size_t i = 0; i < pipes.size(); ++i) Move(pipes[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
    for (size_t i = 0; i < pipes.size();) {
      if (pipes[i].ended && pipes[i + 1].ended) {
        close(pipes[i].from);
        close(pipes[i].to);
        pipes.erase(pipes.begin() + i, pipes.begin() + i + 2);
      } else {
        i += 2;
      }
    }
    if (fds[1].revents != 0) Accept();
  }
  CloseAll();
}

void TcpRelay::State::CloseAll() {
  for (size_t i = 0; i < pipes.size(); i += 2) {
    for (const int socket : {pipes[i].from, pipes[i].to}) {
      const linger none{.l_onoff = 1, .l_linger = 0};
      setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
      close(socket);
    }
  }
  pipes.clear();
}

TcpRelay::TcpRelay(uint16_t to_port) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.to_port = to_port;
  s.listener = Check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  sockaddr_in address = Loopback(0);
  Check(bind(s.listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "bind");
  Check(listen(s.listener, 64), "listen");
  socklen_t length = sizeof(address);
  Check(getsockname(s.listener, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  s.port = ntohs(address.sin_port);
  s.wake = Check(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  s.thread = std::thread([&s] { s.Run(); });
}

TcpRelay::~TcpRelay() {
  state_->stop = true;
  eventfd_write(state_->wake, 1);
  state_->thread.join();
  close(state_->listener);
  close(state_->wake);
}

uint16_t TcpRelay::port() const { return state_->port; }

void TcpRelay::Cut(bool cut) {
  state_->cut = cut;
  eventfd_write(state_->wake, 1);
}

}  // namespace tf::testing
