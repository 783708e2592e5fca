// The link against what it is made of: each figure beside the bare transport or memcpy, in the same run.
//
// Round trips: BM_RoundTrip/<transport> against BM_BareTcpRoundTrip. Enqueueing: BM_Enqueue. Bulk: BM_Bulk against
// BM_Memcpy (shared memory) and BM_BareTcpBulk (TCP).
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "link/connection.h"
#include "link/listener.h"

namespace tf::link {
namespace {

enum Transport : int { kShm, kTcp, kTls };
const char* const kNames[] = {"shm", "tcp", "tls"};

struct Pair {
  std::unique_ptr<Connection> client;
  std::unique_ptr<Connection> worker;
};

Pair Establish(int transport, absl::Duration spin) {
  ListenOptions listen;
  ConnectOptions connect;
  char folder[] = "/tmp/link_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) std::abort();
  listen.folder = connect.folder = folder;
  listen.spin = connect.spin = spin;
  if (transport == kTls) listen.key = connect.key = LinkKey::Generate().value();
  auto listener =
      Listen(transport == kShm ? ConnectionString::Shmem("bench", 64) : ConnectionString::Native("127.0.0.1", 0),
             listen)
          .value();
  auto accepted = std::async(std::launch::async, [&] { return listener->Accept().value(); });
  Pair pair;
  pair.client = Connect(listener->address(), connect).value();
  pair.worker = accepted.get();
  listener = nullptr;
  rmdir(folder);
  return pair;
}

// One 64-byte frame there and one back. range(1): microseconds of spinning.
void BM_RoundTrip(benchmark::State& state) {
  Pair pair = Establish(static_cast<int>(state.range(0)), absl::Microseconds(state.range(1)));
  std::thread echo([&] {
    Channel& channel = pair.worker->data();
    for (;;) {
      auto frame = channel.Receive();
      if (!frame.ok()) return;
      std::byte payload[64];
      std::memcpy(payload, frame->payload.data(), frame->payload.size());
      if (!channel.Send({.op = 2}, {Bytes(payload)}).ok() || !channel.Flush().ok()) return;
    }
  });
  Channel& channel = pair.client->data();
  const std::vector<std::byte> payload(64);
  for (auto _ : state) {
    if (!channel.Send({.op = 1}, {payload}).ok() || !channel.Flush().ok() || !channel.Receive().ok()) {
      state.SkipWithError("link failed");
      break;
    }
  }
  pair.client->Shutdown(absl::CancelledError("done"));
  echo.join();
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(BM_RoundTrip)->Args({kShm, 100'000})->Args({kShm, 20})->Args({kShm, 0})->UseRealTime();
BENCHMARK(BM_RoundTrip)->Args({kTcp, 100'000})->Args({kTcp, 20})->Args({kTcp, 0})->Args({kTls, 20})->UseRealTime();

struct Sockets {
  int a = -1;
  int b = -1;
  Sockets() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 1) != 0) std::abort();
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(a, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
    b = accept(listener, nullptr, nullptr);
    close(listener);
    const int on = 1;
    for (const int fd : {a, b}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Sockets() {
    close(a);
    close(b);
  }
};

// range(0): 1 = busy polling, 0 = blocking.
void BM_BareTcpRoundTrip(benchmark::State& state) {
  Sockets sockets;
  const int flags = state.range(0) != 0 ? MSG_DONTWAIT : 0;
  const auto receive = [flags](int fd) {
    char buffer[80];
    ssize_t got;
    while ((got = recv(fd, buffer, sizeof(buffer), flags)) < 0 && errno == EAGAIN) {
    }
    return got > 0;
  };
  const char message[80] = {};
  std::thread echo([&] {
    while (receive(sockets.b)) (void)!send(sockets.b, message, sizeof(message), MSG_NOSIGNAL);
  });
  for (auto _ : state) {
    if (send(sockets.a, message, sizeof(message), MSG_NOSIGNAL) < 0 || !receive(sockets.a)) std::abort();
  }
  shutdown(sockets.a, SHUT_RDWR);
  echo.join();
}
BENCHMARK(BM_BareTcpRoundTrip)->Arg(1)->Arg(0)->UseRealTime();

// 64-byte frames one way, flushed every 64; range(1) = 1: written in place.
void BM_Enqueue(benchmark::State& state) {
  Pair pair = Establish(static_cast<int>(state.range(0)), kDefaultSpin);
  std::thread drain([&] {
    while (pair.worker->data().Receive().ok()) {
    }
  });
  Channel& channel = pair.client->data();
  const std::vector<std::byte> payload(64);
  uint64_t call = 0;
  for (auto _ : state) {
    bool good;
    if (state.range(1) != 0) {
      auto room = channel.Reserve(64);
      good = room.ok();
      if (good) std::memcpy(room->data(), payload.data(), 64);
      good = good && channel.Commit({.op = 1, .call = call}, 64).ok();
    } else {
      good = channel.Send({.op = 1, .call = call}, {payload}).ok();
    }
    if (++call % 64 == 0) good = good && channel.Flush().ok();
    if (!good) {
      state.SkipWithError("link failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
  pair.worker->Shutdown(absl::CancelledError("done"));
  drain.join();
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(BM_Enqueue)->Args({kShm, 0})->Args({kShm, 1})->Args({kTcp, 0})->Args({kTls, 0})->UseRealTime();

// Large frames from the client's memory to the worker's, copied out at the far end.
void BM_Bulk(benchmark::State& state) {
  Pair pair = Establish(static_cast<int>(state.range(0)), kDefaultSpin);
  const size_t size = static_cast<size_t>(state.range(1));
  std::thread drain([&] {
    std::vector<std::byte> place(size);
    const PayloadSink sink = [&](const FrameHeader& header) { return std::span(place).first(header.size); };
    for (;;) {
      auto frame = pair.worker->data().Receive(kForever, &sink);
      if (!frame.ok()) return;
      if (frame->header.op == 2 && (!pair.worker->data().Send({}).ok() || !pair.worker->data().Flush().ok())) return;
    }
  });
  Channel& channel = pair.client->data();
  const std::vector<std::byte> payload(size, std::byte{1});
  for (size_t warm = 0; warm < (size_t{32} << 20); warm += size) channel.Send({.op = 1}, {payload}).IgnoreError();
  for (auto _ : state) {
    if (!channel.Send({.op = 1}, {payload}).ok() || !channel.Flush().ok()) {
      state.SkipWithError("link failed");
      break;
    }
  }
  if (!channel.Send({.op = 2}).ok() || !channel.Flush().ok() || !channel.Receive().ok()) state.SkipWithError("lost");
  state.SetBytesProcessed(state.iterations() * state.range(1));
  pair.worker->Shutdown(absl::CancelledError("done"));
  drain.join();
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(BM_Bulk)->ArgsProduct({{kShm, kTcp, kTls}, {256 << 10, 1 << 20}})->UseRealTime();

void BM_Memcpy(benchmark::State& state) {
  const size_t size = static_cast<size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  std::vector<std::byte> to(size);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Arg(256 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();

void BM_BareTcpBulk(benchmark::State& state) {
  Sockets sockets;
  const size_t size = static_cast<size_t>(state.range(0));
  std::thread drain([&] {
    std::vector<char> place(size);
    while (recv(sockets.b, place.data(), size, 0) > 0) {
    }
  });
  const std::vector<char> payload(size, 1);
  for (auto _ : state) {
    for (size_t at = 0; at < size;) {
      const ssize_t sent = send(sockets.a, payload.data() + at, size - at, MSG_NOSIGNAL);
      if (sent <= 0) std::abort();
      at += static_cast<size_t>(sent);
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  shutdown(sockets.a, SHUT_RDWR);
  drain.join();
}
BENCHMARK(BM_BareTcpBulk)->Arg(256 << 10)->Arg(1 << 20)->UseRealTime();

}  // namespace
}  // namespace tf::link

BENCHMARK_MAIN();
