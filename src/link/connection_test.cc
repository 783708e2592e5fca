// Client and worker in one process, over shared memory, TCP, and TLS.
#include "link/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "link/control_loop.h"
#include "link/hello.h"
#include "link/listener.h"
#include "link/shared_memory.h"
#include "link/socket.h"

namespace tf::link {
namespace {

using ::testing::HasSubstr;

Bytes AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
std::string Text(Bytes bytes) { return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

std::vector<std::byte> Pattern(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

struct Pair {
  std::unique_ptr<Connection> client;
  std::unique_ptr<Connection> worker;
};

class LinkTest : public ::testing::Test {
 protected:
  LinkTest() {
    folder_ = ::testing::TempDir() + "/link_test_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    listen_.protocol_hash = connect_.protocol_hash = 42;
    listen_.program_version = "worker-1";
    connect_.program_version = "client-1";
    listen_.folder = connect_.folder = folder_;
    listen_.on_refused = [this](const std::string& line) {
      std::lock_guard lock(refused_lock_);
      refused_.push_back(line);
      refused_changed_.notify_all();
    };
  }
  ~LinkTest() override {
    StopAccepting();
    std::filesystem::remove_all(folder_);
  }

  void StartListener(const ConnectionString& where) {
    auto listener = Listen(where, listen_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    acceptor_ = std::thread([this] {
      for (;;) {
        auto connection = listener_->Accept();
        if (!connection.ok()) return;
        std::lock_guard lock(accepted_lock_);
        accepted_.push_back(*std::move(connection));
        accepted_changed_.notify_all();
      }
    });
  }
  void StopAccepting() {
    if (!acceptor_.joinable()) return;
    listener_->Shutdown();
    acceptor_.join();
    listener_ = nullptr;
  }
  std::unique_ptr<Connection> NextAccepted() {
    std::unique_lock lock(accepted_lock_);
    accepted_changed_.wait(lock, [this] { return !accepted_.empty(); });
    auto connection = std::move(accepted_.front());
    accepted_.pop_front();
    return connection;
  }
  std::string NextRefused() {
    std::unique_lock lock(refused_lock_);
    refused_changed_.wait(lock, [this] { return !refused_.empty(); });
    std::string line = std::move(refused_.front());
    refused_.pop_front();
    return line;
  }
  Pair Establish() {
    auto client = Connect(listener_->address(), connect_);
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return {};
    return {*std::move(client), NextAccepted()};
  }
  std::string Path(const std::string& name) const { return SocketPath(folder_, name); }

  std::string folder_;
  ListenOptions listen_;
  ConnectOptions connect_;
  std::unique_ptr<Listener> listener_;
  std::thread acceptor_;
  std::mutex accepted_lock_;
  std::condition_variable accepted_changed_;
  std::deque<std::unique_ptr<Connection>> accepted_;
  std::mutex refused_lock_;
  std::condition_variable refused_changed_;
  std::deque<std::string> refused_;
};

enum class Transport { kShm, kTcp, kTcp6, kTls };

std::string Name(const ::testing::TestParamInfo<Transport>& info) {
  const char* names[] = {"Shm", "Tcp", "Tcp6", "Tls"};
  return names[static_cast<int>(info.param)];
}

class TransportTest : public LinkTest, public ::testing::WithParamInterface<Transport> {
 protected:
  void SetUp() override {
    if (GetParam() == Transport::kTls) listen_.key = connect_.key = LinkKey::Generate().value();
    StartListener(GetParam() == Transport::kShm    ? ConnectionString::Shmem("test", 4)
                  : GetParam() == Transport::kTcp6 ? ConnectionString::Native("::1", 0)
                                                   : ConnectionString::Native("127.0.0.1", 0));
    pair_ = Establish();
    ASSERT_TRUE(pair_.client != nullptr && pair_.worker != nullptr);
  }
  Channel& client() { return pair_.client->data(); }
  Channel& worker() { return pair_.worker->data(); }

  Pair pair_;
};

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         ::testing::Values(Transport::kShm, Transport::kTcp, Transport::kTcp6, Transport::kTls), Name);

TEST_P(TransportTest, PeersKnowOneAnother) {
  EXPECT_EQ(pair_.client->peer().program_version, "worker-1");
  EXPECT_EQ(pair_.worker->peer().program_version, "client-1");
  EXPECT_EQ(pair_.worker->same_machine(), GetParam() == Transport::kShm);
  EXPECT_EQ(pair_.worker->peer().encrypted, GetParam() == Transport::kTls);
  EXPECT_EQ(pair_.client->peer().encrypted, GetParam() == Transport::kTls);
  if (GetParam() == Transport::kShm) {
    EXPECT_EQ(pair_.worker->peer().pid, getpid());
    EXPECT_EQ(pair_.worker->peer().uid, geteuid());
  }
  EXPECT_TRUE(pair_.client->status().ok());
}

TEST_P(TransportTest, FramesTravelBothWaysOnBothChannels) {
  for (auto channel : {&Connection::data, &Connection::control}) {
    for (auto [from, to] :
         {std::pair(pair_.client.get(), pair_.worker.get()), std::pair(pair_.worker.get(), pair_.client.get())}) {
      Channel& sender = (from->*channel)();
      Channel& receiver = (to->*channel)();
      ASSERT_TRUE(sender.Send({.op = 7, .flags = 0xf123, .call = 99}, {AsBytes("hello "), {}, AsBytes("link")}).ok());
      ASSERT_TRUE(sender.Send({.op = 8}).ok());
      auto room = sender.Reserve(100);
      ASSERT_TRUE(room.ok());
      ASSERT_EQ(room->size(), 100u);
      std::memcpy(room->data(), "in place", 8);
      ASSERT_TRUE(sender.Commit({.op = 9}, 8).ok());
      ASSERT_TRUE(sender.Flush().ok());
      auto frame = receiver.Receive();
      ASSERT_TRUE(frame.ok()) << frame.status();
      EXPECT_EQ(frame->header.op, 7);
      EXPECT_EQ(frame->header.flags, 0x123);
      EXPECT_EQ(frame->header.call, 99u);
      EXPECT_EQ(frame->header.size, 10u);
      EXPECT_EQ(Text(frame->payload), "hello link");
      frame = receiver.Receive();
      ASSERT_TRUE(frame.ok());
      EXPECT_EQ(frame->header.op, 8);
      EXPECT_TRUE(frame->payload.empty());
      frame = receiver.Receive();
      ASSERT_TRUE(frame.ok());
      EXPECT_EQ(frame->header.op, 9);
      EXPECT_EQ(Text(frame->payload), "in place");
      auto none = receiver.TryReceive();
      ASSERT_TRUE(none.ok()) << none.status();
      EXPECT_FALSE(none->has_value());
    }
  }
}

TEST_P(TransportTest, MistakesOfTheCallerLeaveTheLinkUp) {
  EXPECT_TRUE(absl::IsInvalidArgument(client().Reserve(kMaxFrame + 1).status()));
  const std::vector<std::byte> large(kMaxFrame + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(client().Send({}, {large})));
  EXPECT_TRUE(absl::IsFailedPrecondition(client().Commit({}, 0)));
  ASSERT_TRUE(client().Reserve(8).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(client().Commit({}, 9)));
  const int fd = STDIN_FILENO;
  EXPECT_TRUE(absl::IsFailedPrecondition(client().SendFds({}, {}, {&fd, 1})));
  ASSERT_TRUE(client().Send({.op = 5}).ok());
  ASSERT_TRUE(client().Flush().ok());
  EXPECT_EQ(worker().Receive()->header.op, 5);
}

TEST_P(TransportTest, DeadlinesLoseNothing) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker().Receive(Deadline()).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker().Receive(Deadline::min()).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker().Receive(After(absl::Milliseconds(20))).status()));
  ASSERT_TRUE(client().Send({.op = 5}).ok());
  ASSERT_TRUE(client().Flush().ok());
  EXPECT_EQ(worker().Receive()->header.op, 5);
}

// Both directions at once, sizes of all kinds, received as views, into a sink, and by polling.
TEST_P(TransportTest, RandomTrafficArrivesIntact) {
  constexpr int kFrames = 300;
  const auto send = [](Channel& channel, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (uint64_t call = 0; call < kFrames; ++call) {
      const size_t size = random() % 20 == 0 ? random() % (kMaxFrame + 1) : random() % 3000;
      const auto bytes = Pattern(size, seed + call);
      if (random() % 2 == 0) {
        const size_t cut = random() % (size + 1);
        ASSERT_TRUE(channel.Send({.op = 1, .call = call}, {Bytes(bytes).first(cut), Bytes(bytes).subspan(cut)}).ok());
      } else {
        auto room = channel.Reserve(size);
        ASSERT_TRUE(room.ok()) << room.status();
        if (size > 0) std::memcpy(room->data(), bytes.data(), size);
        ASSERT_TRUE(channel.Commit({.op = 1, .call = call}, size).ok());
      }
      if (random() % 8 == 0) {
        ASSERT_TRUE(channel.Flush().ok());
      }
    }
    ASSERT_TRUE(channel.Flush().ok());
  };
  const auto receive = [](Channel& channel, uint64_t seed) {
    std::vector<std::byte> place(kMaxFrame);
    const PayloadSink sink = [&](const FrameHeader& header) {
      return header.call % 3 == 0 ? std::span(place).first(header.size) : std::span<std::byte>();
    };
    for (uint64_t call = 0; call < kFrames; ++call) {
      auto frame = channel.Receive(kForever, call % 2 == 0 ? &sink : nullptr);
      ASSERT_TRUE(frame.ok()) << frame.status();
      ASSERT_EQ(frame->header.call, call);
      const auto expected = Pattern(frame->payload.size(), seed + call);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), frame->payload.begin()));
      if (call % 6 == 0 && frame->header.size > 0) {
        ASSERT_EQ(frame->payload.data(), place.data());
      }
    }
  };
  std::thread a([&] { send(client(), 1000); });
  std::thread b([&] { receive(worker(), 1000); });
  std::thread c([&] { send(worker(), 5000); });
  std::thread d([&] { receive(client(), 5000); });
  for (std::thread* thread : {&a, &b, &c, &d}) thread->join();
}

TEST_P(TransportTest, FullBuffersHoldTheSenderAndNothingIsLost) {
  std::atomic<int> sent = 0;
  constexpr int kFrames = 40;  // more than rings and socket buffers take
  std::thread sender([&] {
    const std::vector<std::byte> bytes(1 << 20, std::byte{3});
    for (int i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(client().Send({.call = static_cast<uint64_t>(i)}, {bytes}).ok());
      ++sent;
    }
    ASSERT_TRUE(client().Flush().ok());
  });
  for (int i = 0; i < kFrames; ++i) {
    auto frame = worker().Receive();
    ASSERT_TRUE(frame.ok()) << frame.status();
    ASSERT_EQ(frame->header.call, static_cast<uint64_t>(i));
    ASSERT_EQ(frame->header.size, 1u << 20);
  }
  sender.join();
  EXPECT_EQ(sent, kFrames);
}

TEST_P(TransportTest, ReceiverThatSleepsIsWokenByFlush) {
  auto received = std::async(std::launch::async, [&] { return worker().Receive().value().header.op; });
  EXPECT_EQ(received.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  ASSERT_TRUE(client().Send({.op = 77}).ok());
  ASSERT_TRUE(client().Flush().ok());
  EXPECT_EQ(received.get(), 77);
}

TEST_P(TransportTest, ShutdownWakesEverybody) {
  const std::vector<std::byte> bytes(1 << 20);
  std::thread receiver([&] { EXPECT_TRUE(absl::IsUnavailable(client().Receive().status())); });
  std::thread control([&] { EXPECT_TRUE(absl::IsUnavailable(pair_.client->control().Receive().status())); });
  std::thread sender([&] {
    absl::Status status;
    while (status.ok()) status = client().Send({}, {bytes});  // nobody receives
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
  });
  pair_.client->Shutdown(absl::CancelledError("enough"));
  for (std::thread* thread : {&receiver, &control, &sender}) thread->join();
  pair_.client->Shutdown(absl::CancelledError("other reason"));
  EXPECT_THAT(std::string(pair_.client->status().message()), HasSubstr("enough"));
  EXPECT_TRUE(absl::IsUnavailable(client().Flush()));
  EXPECT_TRUE(absl::IsUnavailable(client().Reserve(1).status()));
  EXPECT_TRUE(absl::IsUnavailable(client().TryReceive().status()));
}

TEST_P(TransportTest, WhatArrivedBeforeTheCloseIsStillReceived) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client().Send({.call = static_cast<uint64_t>(i)}, {AsBytes("x")}).ok());
  ASSERT_TRUE(client().Flush().ok());
  pair_.client = nullptr;
  for (int i = 0; i < 10; ++i) {
    auto frame = worker().Receive();
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->header.call, static_cast<uint64_t>(i));
  }
  EXPECT_TRUE(absl::IsUnavailable(worker().Receive().status()));
  EXPECT_TRUE(absl::IsUnavailable(pair_.worker->control().Receive().status()));
  absl::Status status;
  while (status.ok()) status = worker().Send({}, {AsBytes("y")});  // no SIGPIPE either
  EXPECT_TRUE(absl::IsUnavailable(status));
}

TEST_P(TransportTest, CloseWakesASleepingPeer) {
  std::thread data([&] { EXPECT_TRUE(absl::IsUnavailable(worker().Receive().status())); });
  std::thread control([&] { EXPECT_TRUE(absl::IsUnavailable(pair_.worker->control().Receive().status())); });
  pair_.client = nullptr;
  data.join();
  control.join();
}

TEST_P(TransportTest, ForkedChildCannotTouchTheLink) {
  ASSERT_TRUE(client().Send({.op = 1}).ok());
  const pid_t child = fork();
  if (child == 0) {
    bool good = pair_.client->InForkedChild() && absl::IsUnavailable(client().Send({.op = 666})) &&
                absl::IsUnavailable(client().Reserve(8).status()) && absl::IsUnavailable(client().Commit({}, 0)) &&
                absl::IsUnavailable(client().Flush()) && absl::IsUnavailable(client().Receive().status()) &&
                absl::IsUnavailable(client().TryReceive().status()) &&
                absl::IsUnavailable(pair_.client->control().Send({.op = 666}));
    pair_.client->Shutdown(absl::CancelledError("child"));
    pair_.client = nullptr;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(pair_.client->InForkedChild());
  ASSERT_TRUE(client().Send({.op = 2}).ok());
  ASSERT_TRUE(client().Flush().ok());
  EXPECT_EQ(worker().Receive()->header.op, 1);
  EXPECT_EQ(worker().Receive()->header.op, 2);
}

TEST_P(TransportTest, DeathOfTheClientProcessIsNoticed) {
  int ready[2];
  int leave[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(leave), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto connection = Connect(listener_->address(), connect_);
    const char good =
        connection.ok() && (*connection)->data().Send({.op = 3}).ok() && (*connection)->data().Flush().ok();
    [[maybe_unused]] ssize_t n = write(ready[1], &good, 1);
    char c;
    n = read(leave[0], &c, 1);
    kill(getpid(), SIGKILL);
  }
  char good = 0;
  ASSERT_EQ(read(ready[0], &good, 1), 1);
  ASSERT_TRUE(good);
  auto connection = NextAccepted();
  EXPECT_EQ(connection->data().Receive()->header.op, 3);
  auto end = std::async(std::launch::async, [&] { return connection->data().Receive().status(); });
  ASSERT_EQ(write(leave[1], "x", 1), 1);
  EXPECT_TRUE(absl::IsUnavailable(end.get()));
  waitpid(child, nullptr, 0);
  for (const int fd : {ready[0], ready[1], leave[0], leave[1]}) close(fd);
}

TEST_P(TransportTest, ManyConnectionsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      auto connection = Connect(listener_->address(), connect_);
      ASSERT_TRUE(connection.ok()) << connection.status();
      ASSERT_TRUE((*connection)->data().Send({.call = static_cast<uint64_t>(i)}).ok());
      ASSERT_TRUE((*connection)->data().Flush().ok());
      ASSERT_TRUE((*connection)->data().Receive().ok());
      ++good;
    });
  }
  uint64_t calls = 0;
  for (int i = 0; i < 16; ++i) {
    auto connection = NextAccepted();
    auto frame = connection->data().Receive();
    ASSERT_TRUE(frame.ok()) << frame.status();
    calls |= uint64_t{1} << frame->header.call;
    ASSERT_TRUE(connection->data().Send({}).ok());
    ASSERT_TRUE(connection->data().Flush().ok());
    // The client may not have read it yet; what was sent must survive the close.
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls, 0xffffu);
  EXPECT_EQ(good, 16);
}

TEST_P(TransportTest, ControlLoopsKeepTheLinkAliveAndCarryFrames) {
  const HeartbeatOptions fast{.interval = absl::Milliseconds(5), .timeout = absl::Seconds(2)};
  std::promise<std::string> got;
  std::promise<absl::Status> lost;
  ControlLoop worker_loop(
      *pair_.worker, fast, [&](Frame& frame) { got.set_value(Text(frame.payload)); },
      [&](const absl::Status& why) { lost.set_value(why); });
  {
    ControlLoop client_loop(*pair_.client, fast, [](Frame&) {});
    ASSERT_TRUE(client_loop.Send({.op = 4}, {AsBytes("ping")}).ok());
    EXPECT_EQ(got.get_future().get(), "ping");
  }
  EXPECT_TRUE(absl::IsUnavailable(lost.get_future().get()));
  EXPECT_TRUE(absl::IsUnavailable(pair_.client->status()));
  EXPECT_TRUE(absl::IsUnavailable(worker().Receive().status()));
}

TEST_P(TransportTest, SilentPeerIsLostAndEverybodyWakes) {
  std::promise<absl::Status> lost;
  std::thread receiver([&] { EXPECT_TRUE(absl::IsUnavailable(worker().Receive().status())); });
  ControlLoop loop(
      *pair_.worker, {.interval = absl::Milliseconds(10), .timeout = absl::Milliseconds(50)}, [](Frame&) {},
      [&](const absl::Status& why) { lost.set_value(why); });
  const absl::Status why = lost.get_future().get();
  EXPECT_THAT(std::string(why.message()), HasSubstr("no sign of life"));
  receiver.join();
}

TEST_F(LinkTest, DescriptorsTravelWithTheirFrames) {
  StartListener(ConnectionString::Shmem("fds", 4));
  Pair pair = Establish();
  std::vector<Fd> files;
  Channel& from = pair.client->control();
  for (int i = 0; i < 6; ++i) {
    auto fd = CreateSharedMemory("test", 4096);
    ASSERT_TRUE(fd.ok());
    auto mapping = Mapping::Map(fd->get(), 0, 4096);
    mapping->bytes()[0] = std::byte(i);
    files.push_back(*std::move(fd));
  }
  const int fds[] = {files[0].get(), files[1].get(), files[2].get(), files[3].get(), files[4].get(), files[5].get()};
  ASSERT_TRUE(from.Send({.op = 1}, {AsBytes("before")}).ok());
  ASSERT_TRUE(from.SendFds({.op = 2}, {}, std::span(fds).first(2)).ok());
  ASSERT_TRUE(from.Send({.op = 3}, {AsBytes("between")}).ok());
  ASSERT_TRUE(from.SendFds({.op = 4}, {}, std::span(fds).subspan(2, 3)).ok());
  ASSERT_TRUE(from.SendFds({.op = 5}, {}, std::span(fds).subspan(5, 1)).ok());
  std::vector<int> seen;
  for (uint16_t op = 1; op <= 5; ++op) {
    auto frame = pair.worker->control().Receive();
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->header.op, op);
    EXPECT_EQ(frame->header.flags, 0);
    const size_t expected[] = {0, 2, 0, 3, 1};
    ASSERT_EQ(frame->fds.size(), expected[op - 1]);
    for (const Fd& fd : frame->fds) {
      EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
      auto mapping = Mapping::Map(fd.get(), 0, 4096);
      ASSERT_TRUE(mapping.ok());
      seen.push_back(static_cast<int>(mapping->bytes()[0]));
    }
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
  const std::vector<int> many(kMaxFds + 1, fds[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(from.SendFds({}, {}, many)));
}

TEST_F(LinkTest, VersionMismatchIsOneClearErrorOnBothSides) {
  for (const auto& where : {ConnectionString::Shmem("v", 4), ConnectionString::Native("127.0.0.1", 0)}) {
    StartListener(where);
    connect_.protocol_hash = 43;
    const auto client = Connect(listener_->address(), connect_);
    ASSERT_TRUE(absl::IsFailedPrecondition(client.status())) << client.status();
    const std::string words =
        "the client is version client-1 (protocol 000000000000002b), the worker is version worker-1 (protocol "
        "000000000000002a)";
    EXPECT_THAT(std::string(client.status().message()), HasSubstr(words));
    EXPECT_THAT(NextRefused(), HasSubstr(words));
    connect_.protocol_hash = 42;
    EXPECT_TRUE(Connect(listener_->address(), connect_).ok());
    StopAccepting();
  }
}

TEST_F(LinkTest, AdmissionSeesTheHelloAndItsWordsReachTheClient) {
  listen_.admit = [](const Peer& peer) -> absl::StatusOr<std::string> {
    if (peer.text != "let me in") return absl::PermissionDeniedError("quota is used up");
    return "welcome " + peer.program_version;
  };
  for (const auto& where : {ConnectionString::Shmem("a", 4), ConnectionString::Native("127.0.0.1", 0)}) {
    StartListener(where);
    connect_.text = "please";
    const auto refused = Connect(listener_->address(), connect_);
    ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
    EXPECT_EQ(refused.status().message(), "quota is used up");
    EXPECT_THAT(NextRefused(), HasSubstr("quota is used up"));
    connect_.text = "let me in";
    const auto client = Connect(listener_->address(), connect_);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ((*client)->peer().text, "welcome client-1");
    EXPECT_EQ(NextAccepted()->peer().text, "let me in");
    StopAccepting();
  }
}

// --- keys ---

TEST_F(LinkTest, WrongOrMissingKeyIsRefused) {
  listen_.key = LinkKey::Generate().value();
  connect_.timeout = absl::Seconds(30);  // sanitizers are slow; nothing here should run into it
  StartListener(ConnectionString::Native("127.0.0.1", 0));
  connect_.key = LinkKey::Generate().value();
  const auto wrong = Connect(listener_->address(), connect_);
  EXPECT_TRUE(absl::IsPermissionDenied(wrong.status())) << wrong.status();
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("link key"));
  EXPECT_THAT(NextRefused(), HasSubstr("no valid link key"));
  connect_.key.reset();
  const auto none = Connect(listener_->address(), connect_);
  EXPECT_TRUE(absl::IsUnavailable(none.status())) << none.status();
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("link key"));
  connect_.key = listen_.key;
  EXPECT_TRUE(Connect(listener_->address(), connect_).ok());
}

TEST_F(LinkTest, KeyForAWorkerWithoutOneIsRefused) {
  StartListener(ConnectionString::Native("127.0.0.1", 0));
  connect_.key = LinkKey::Generate().value();
  const auto client = Connect(listener_->address(), connect_);
  EXPECT_TRUE(absl::IsPermissionDenied(client.status())) << client.status();
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("uses none"));
}

TEST_F(LinkTest, OtherMachinesNeedAKeyOrTheWordInsecure) {
  const auto any = ConnectionString::Native("0.0.0.0", 0);
  const auto refused = Listen(any, listen_);
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("link key"));
  listen_.insecure = true;
  EXPECT_TRUE(Listen(any, listen_).ok());
  listen_.insecure = false;
  listen_.key = LinkKey::Generate().value();
  EXPECT_TRUE(Listen(any, listen_).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Connect(ConnectionString::Native("192.0.2.1", 80), connect_).status()));
}

// --- addresses ---

TEST_F(LinkTest, NobodyThere) {
  const auto shm = Connect(ConnectionString::Shmem("nobody", 4), connect_);
  ASSERT_TRUE(absl::IsUnavailable(shm.status()));
  EXPECT_THAT(std::string(shm.status().message()), HasSubstr("no worker listens at " + Path("nobody")));
  auto listener = Listen(ConnectionString::Native("127.0.0.1", 0), listen_);
  ASSERT_TRUE(listener.ok());
  const ConnectionString address = (*listener)->address();
  listener->reset();
  const auto tcp = Connect(address, connect_);
  ASSERT_TRUE(absl::IsUnavailable(tcp.status()));
  EXPECT_THAT(std::string(tcp.status().message()), HasSubstr("no worker listens at 127.0.0.1:"));
}

TEST_F(LinkTest, BusyPortAndBusyName) {
  auto tcp = Listen(ConnectionString::Native("127.0.0.1", 0), listen_);
  ASSERT_TRUE(tcp.ok());
  const auto again = Listen((*tcp)->address(), listen_);
  ASSERT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("in use by another program"));

  auto shm = Listen(ConnectionString::Shmem("busy", 4), listen_);
  ASSERT_TRUE(shm.ok()) << shm.status();
  const auto second = Listen(ConnectionString::Shmem("busy", 4), listen_);
  ASSERT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by another worker"));
  struct stat info{};
  ASSERT_EQ(stat(Path("busy").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  shm->reset();
  EXPECT_NE(stat(Path("busy").c_str(), &info), 0);
}

TEST_F(LinkTest, SocketFileOfADeadWorkerIsReplaced) {
  const pid_t child = fork();
  if (child == 0) {
    auto listener = Listen(ConnectionString::Shmem("stale", 4), listen_);
    _exit(listener.ok() ? 0 : 1);  // no destructor: the file stays
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(Path("stale")));
  StartListener(ConnectionString::Shmem("stale", 4));
  EXPECT_TRUE(Connect(listener_->address(), connect_).ok());
}

TEST_F(LinkTest, OnlyOneOfManyStartersGetsAStaleName) {
  for (int round = 0; round < 5; ++round) {
    const Fd dead = NewSocket(AF_UNIX).value();
    const SocketAddress address = UnixAddress(Path("race")).value();
    ASSERT_EQ(bind(dead.get(), address.get(), address.size), 0);
    std::vector<std::future<bool>> starters;
    std::mutex lock;
    std::vector<std::unique_ptr<Listener>> winners;
    for (int i = 0; i < 4; ++i) {
      starters.push_back(std::async(std::launch::async, [&] {
        auto listener = Listen(ConnectionString::Shmem("race", 4), listen_);
        std::lock_guard guard(lock);
        if (listener.ok()) winners.push_back(*std::move(listener));
        return listener.ok();
      }));
    }
    int won = 0;
    for (auto& starter : starters) won += starter.get();
    EXPECT_EQ(won, 1);
  }
}

TEST_F(LinkTest, OtherFilesAreNotRemoved) {
  std::ofstream(Path("file")) << "precious";
  const auto listener = Listen(ConnectionString::Shmem("file", 4), listen_);
  EXPECT_TRUE(absl::IsAlreadyExists(listener.status())) << listener.status();
  EXPECT_TRUE(std::filesystem::exists(Path("file")));
  listen_.folder = folder_ + "/missing";
  EXPECT_TRUE(absl::IsNotFound(Listen(ConnectionString::Shmem("x", 4), listen_).status()));
}

TEST_F(LinkTest, AcceptEndsByDeadlineAndByShutdown) {
  auto listener = Listen(ConnectionString::Native("127.0.0.1", 0), listen_);
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*listener)->Accept(Deadline()).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded((*listener)->Accept(After(absl::Milliseconds(5))).status()));
  auto accept = std::async(std::launch::async, [&] { return (*listener)->Accept().status(); });
  (*listener)->Shutdown();
  EXPECT_TRUE(absl::IsCancelled(accept.get()));
  EXPECT_TRUE(absl::IsCancelled((*listener)->Accept().status()));
}

// --- hostile peers ---

class HostileTest : public LinkTest, public ::testing::WithParamInterface<Transport> {
 protected:
  void Start() {
    if (GetParam() == Transport::kTls) listen_.key = connect_.key = LinkKey::Generate().value();
    StartListener(GetParam() == Transport::kShm ? ConnectionString::Shmem("hostile", 4)
                                                : ConnectionString::Native("127.0.0.1", 0));
  }
  // A plain socket to the listener.
  Fd Raw() {
    const bool shm = GetParam() == Transport::kShm;
    const SocketAddress address =
        shm ? UnixAddress(Path("hostile")).value() : TcpAddress("127.0.0.1", listener_->address().port).value();
    Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(ConnectUntil(fd.get(), address, kForever), 0);
    return fd;
  }
  static void Write(const Fd& fd, Bytes bytes) { (void)send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  static void ReadToEnd(const Fd& fd) {
    char buffer[4096];
    while (recv(fd.get(), buffer, sizeof(buffer), 0) > 0) {
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, HostileTest, ::testing::Values(Transport::kShm, Transport::kTcp, Transport::kTls), Name);

// Without TLS: with it, a hello without the key is garbage, and after it the parser is the same as over TCP.
class PlainHostileTest : public HostileTest {};
INSTANTIATE_TEST_SUITE_P(All, PlainHostileTest, ::testing::Values(Transport::kShm, Transport::kTcp), Name);

// Where a client connects twice.
class TwoSocketHostileTest : public HostileTest {};
INSTANTIATE_TEST_SUITE_P(All, TwoSocketHostileTest, ::testing::Values(Transport::kTcp), Name);

TEST_P(HostileTest, GarbageInPlaceOfAHelloEndsThatConnectionOnly) {
  Start();
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    const Fd fd = Raw();
    Write(fd, Pattern(16 + random() % 5000, random()));
    ::shutdown(fd.get(), SHUT_WR);
    ReadToEnd(fd);
    EXPECT_THAT(NextRefused(), HasSubstr("refused"));
  }
  EXPECT_TRUE(Establish().worker != nullptr);
}

TEST_P(PlainHostileTest, BrokenHellosEndThatConnectionOnly) {
  Start();
  Hello hello;
  hello.protocol_hash = 42;
  const auto good = FormatHello(hello);
  std::vector<std::vector<std::byte>> bad;
  bad.emplace_back(good.begin(), good.end() - 1);  // cut, then closed
  bad.emplace_back(good.begin(), good.begin() + 5);
  FrameHeader header{.size = UINT32_MAX, .op = kOpHello};
  bad.push_back(good);
  std::memcpy(bad.back().data(), &header, sizeof(header));
  header = {.size = 0, .op = kOpHello};
  bad.push_back(good);
  std::memcpy(bad.back().data(), &header, sizeof(header));
  for (const Hello::Role role : {Hello::Role::kJoin, Hello::Role::kAccept, Hello::Role::kRefuse}) {
    hello.role = role;  // a session that does not exist; answers where a question is due
    bad.push_back(FormatHello(hello));
  }
  for (const auto& bytes : bad) {
    const Fd fd = Raw();
    Write(fd, bytes);
    ::shutdown(fd.get(), SHUT_WR);
    ReadToEnd(fd);
    NextRefused();
  }
  EXPECT_TRUE(Establish().worker != nullptr);
}

TEST_P(HostileTest, SilentNewcomersAreDroppedInTime) {
  listen_.hello_timeout = absl::Milliseconds(30);
  Start();
  const Fd fd = Raw();
  ReadToEnd(fd);
  EXPECT_THAT(NextRefused(), HasSubstr("no complete hello in time"));
}

TEST_P(HostileTest, FloodOfHalfOpenConnectionsDoesNotShutOthersOut) {
  listen_.max_pending = 8;
  listen_.hello_timeout = absl::Hours(1);
  Start();
  std::vector<Fd> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(Raw());
  EXPECT_TRUE(Establish().worker != nullptr);
  EXPECT_THAT(NextRefused(), HasSubstr("too many unfinished hellos"));
  ReadToEnd(flood.front());
}

TEST_P(TwoSocketHostileTest, ClientThatGoesBetweenItsTwoSocketsIsForgotten) {
  Start();
  {
    const Fd fd = Raw();
    Hello hello;
    hello.protocol_hash = 42;
    Write(fd, FormatHello(hello));
    char buffer[16];
    ASSERT_EQ(recv(fd.get(), buffer, sizeof(buffer), MSG_WAITALL), 16);
  }
  EXPECT_THAT(NextRefused(), HasSubstr("before its second socket"));
}

// After a good hello the peer's raw bytes meet the frame parser. Over shared memory this is the control channel.
TEST_P(PlainHostileTest, BrokenFramesEndThatSession) {
  Start();
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; ++i) {
    const Fd first = Raw();
    Hello hello;
    hello.protocol_hash = 42;
    Write(first, FormatHello(hello));
    std::byte answer[sizeof(FrameHeader) + kMaxHello];
    ASSERT_EQ(recv(first.get(), answer, sizeof(FrameHeader), MSG_WAITALL), 16);
    FrameHeader header;
    std::memcpy(&header, answer, sizeof(header));
    ASSERT_EQ(recv(first.get(), answer, header.size, MSG_WAITALL), static_cast<ssize_t>(header.size));
    Fd second;
    if (GetParam() == Transport::kTcp) {
      second = Raw();
      hello.role = Hello::Role::kJoin;
      hello.token = ParseHello(Bytes(answer, header.size)).value().token;
      Write(second, FormatHello(hello));
    }
    auto connection = NextAccepted();
    Channel& channel = GetParam() == Transport::kTcp ? connection->data() : connection->control();
    FrameHeader frame{.size = 3, .op = 1};
    std::vector<std::byte> bytes(sizeof(frame) + 3);
    switch (i % 4) {
      case 0:
        frame.size = static_cast<uint32_t>(kMaxFrame + 1 + random() % 1000);
        break;
      case 1:
        frame.size = UINT32_MAX;
        break;
      case 2:
        frame.flags = static_cast<uint16_t>(0x1000 * (1 + random() % 15));  // descriptors that do not come
        break;
      case 3:
        frame.size = 1000;  // then the end
        break;
    }
    std::memcpy(bytes.data(), &frame, sizeof(frame));
    Write(first, bytes);
    if (i % 4 == 3) ::shutdown(first.get(), SHUT_WR);
    const absl::Status status = channel.Receive().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::IsUnavailable(connection->status()));
  }
  EXPECT_TRUE(Establish().worker != nullptr);
}

TEST_F(LinkTest, HostileRingEndsThatSessionOnly) {
  StartListener(ConnectionString::Shmem("ring", 4));
  std::mt19937_64 random(6);
  for (int i = 0; i < 40; ++i) {
    const SocketAddress address = UnixAddress(Path("ring")).value();
    Stream stream(NewSocket(AF_UNIX).value(), Stream::Kind::kUnix);
    ASSERT_EQ(ConnectUntil(stream.fd(), address, kForever), 0);
    Hello hello;
    hello.protocol_hash = 42;
    const auto bytes = FormatHello(hello);
    ASSERT_EQ(send(stream.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    HelloReader reader;
    short events = 0;
    absl::StatusOr<std::optional<Hello>> answer = std::optional<Hello>();
    while (answer.ok() && !answer->has_value()) {
      answer = reader.Step(stream, events);
      if (answer.ok() && !answer->has_value()) PollUntil(stream.fd(), events, kForever);
    }
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(stream.received_fds().size(), 1u);
    const int fd = stream.received_fds().front().get();
    EXPECT_NE(ftruncate(fd, 0), 0) << "a client could make the worker fault";
    auto page = Mapping::Map(fd, 0, 4096);
    ASSERT_TRUE(page.ok());
    auto connection = NextAccepted();
    // All of the control page is the client's to destroy: only bad positions follow, never a sensible frame.
    for (std::byte& byte : page->bytes()) byte = std::byte(random());
    const absl::Status received = connection->data().Receive().status();
    EXPECT_TRUE(absl::IsUnavailable(received)) << received;
    absl::Status sent;
    while (sent.ok()) sent = connection->data().Send({}, {AsBytes("reply")});
    EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
  }
  EXPECT_TRUE(Establish().worker != nullptr);
}

TEST_F(LinkTest, MoreDescriptorsThanPermittedEndTheSession) {
  StartListener(ConnectionString::Shmem("fds", 4));
  Pair pair = Establish();
  const std::vector<int> eight(kMaxFds, STDERR_FILENO);
  // Frames whose descriptors the receiver does not get to are kept; a flood of them is not.
  absl::Status status;
  std::thread receiver([&] {
    absl::StatusOr<Frame> frame = pair.worker->control().Receive();
    while (frame.ok()) frame = pair.worker->control().Receive();
    EXPECT_TRUE(absl::IsUnavailable(frame.status())) << frame.status();
  });
  for (int i = 0; i < 20 && status.ok(); ++i) status = pair.client->control().SendFds({.op = 1}, {}, eight);
  pair.client = nullptr;
  receiver.join();
}

}  // namespace
}  // namespace tf::link
