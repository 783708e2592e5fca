// Client and worker in one process, over both kinds of link, on the simulated driver: what crosses the wire, and in
// which order.
#include "remoting/worker/session.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cuda/loader/library.h"
#include "link/listener.h"
#include "remoting/client/remote_backend.h"
#include "remoting/worker/server.h"

namespace tf::remoting {
namespace {

using cuda::CopyShape;

constexpr uint32_t kPageable = 1, kWait = 2;
constexpr uint32_t kToDevice = 0, kToHost = 1;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 counter;
.visible .entry add(.param .u64 at, .param .u32 amount) {
  .reg .u64 %a, %o;
  .reg .u32 %i, %v, %n;
  ld.param.u64 %a, [at];
  ld.param.u32 %n, [amount];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %o, %i, 4;
  add.u64 %a, %a, %o;
  ld.global.u32 %v, [%a];
  add.u32 %v, %v, %n;
  st.global.u32 [%a], %v;
  ret;
}
)";

const cuda::DriverFunctions& Driver() {
  static const cuda::DriverFunctions functions = [] {
    setenv("TF_SIM_GPUS", absl::StrCat("T4:1").c_str(), 1);
    absl::StatusOr<cuda::DriverLibrary> library = cuda::LoadDriver(TF_SIM_DRIVER);
    if (!library.ok()) {
      std::fprintf(stderr, "%s\n", std::string(library.status().message()).c_str());
      std::abort();
    }
    if (library->functions.cuInit(0) != CUDA_SUCCESS) std::abort();
    return library->functions;
  }();
  return functions;
}

// Remembers what the worker raised.
class Events : public cuda::BackendEvents {
 public:
  void HostFunction(uint64_t token, int32_t) override {
    if (on_host_function) on_host_function(token);
  }
  void Output(uint64_t, std::string_view text) override { output += text; }
  std::function<void(uint64_t)> on_host_function;
  std::string output;
};

class SessionTest : public testing::TestWithParam<const char*> {
 protected:
  SessionTest() {
    card_.driver = &Driver();
    card_.snapshot = ReadSnapshot(Driver());
    card_.books = std::make_unique<MemoryBooks>(1, std::nullopt);
    listen_.protocol_hash = cuda::kProtocolHash;
    link::ConnectionString where = std::string_view(GetParam()) == "tcp"
                                       ? link::ConnectionString::Native("127.0.0.1", 0)
                                       : link::ConnectionString::Shmem(absl::StrCat("tf-session-test-", getpid()), 8);
    auto listener = link::Listen(where, listen_);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    server_ = std::make_unique<Server>(listener_.get(), &card_, nullptr);
    thread_ = std::thread([this] { server_->Run(); });
    backend_ = Connect();
    EXPECT_EQ(backend_->ContextCreate(1, 0, 0), CUDA_SUCCESS);
  }
  ~SessionTest() override {
    backend_.reset();
    server_->Stop();
    thread_.join();
  }
  std::unique_ptr<RemoteBackend> Connect() {
    link::ConnectOptions options;
    options.protocol_hash = cuda::kProtocolHash;
    auto connection = link::Connect(listener_->address(), options);
    EXPECT_TRUE(connection.ok()) << connection.status();
    auto backend = std::make_unique<RemoteBackend>(*std::move(connection));
    backend->SetEvents(&events_);
    return backend;
  }
  uint64_t Allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(backend_->MemoryAllocate(1, bytes, &address), CUDA_SUCCESS);
    return address;
  }
  static CopyShape Row(uint64_t destination, uint64_t source, uint64_t bytes) {
    return {.destination = destination,
            .destination_pitch = bytes,
            .destination_slice = bytes,
            .source = source,
            .source_pitch = bytes,
            .source_slice = bytes,
            .width = bytes,
            .height = 1,
            .depth = 1};
  }
  template <class T>
  static uint64_t At(const std::vector<T>& bytes) {
    return reinterpret_cast<uint64_t>(bytes.data());
  }
  void Load() {
    cuda::ModuleFacts facts;
    ASSERT_EQ(backend_->ModuleLoad(1, 9, std::as_bytes(std::span(kKernels, sizeof kKernels - 1)), &facts), CUDA_SUCCESS)
        << facts.log;
    ASSERT_EQ(facts.kernels.size(), 1u);
    EXPECT_EQ(facts.kernels[0].name, "add");
    ASSERT_EQ(facts.kernels[0].parameters.size(), 2u);
    EXPECT_EQ(facts.kernels[0].parameters[1].offset, 8u);
  }
  CUresult Add(uint64_t stream, uint64_t at, uint32_t amount, uint32_t threads = 256) {
    std::byte parameters[12];
    std::memcpy(parameters, &at, 8);
    std::memcpy(parameters + 8, &amount, 4);
    return backend_->Launch(1, stream, 9, 0, {.grid = {1, 1, 1}, .block = {threads, 1, 1}}, parameters);
  }

  Card card_;
  link::ListenOptions listen_;
  std::unique_ptr<link::Listener> listener_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  Events events_;
  std::unique_ptr<RemoteBackend> backend_;
};

TEST_P(SessionTest, CopiesOfAllSizesArriveWhole) {
  for (uint64_t bytes : {uint64_t{1}, uint64_t{4096}, (uint64_t{256} << 10) + 1, (uint64_t{5} << 20) + 3}) {
    std::vector<uint8_t> out(bytes), back(bytes);
    for (uint64_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(i * 7 + i / 251);
    uint64_t device = Allocate(bytes);
    ASSERT_EQ(backend_->Copy(1, 0, kToDevice, Row(device, At(out), bytes), kPageable).Wait(), CUDA_SUCCESS);
    // Captured: what the program writes now does not matter any more.
    std::vector<uint8_t> sent = out;
    std::fill(out.begin(), out.end(), 0);
    ASSERT_EQ(backend_->Copy(1, 0, kToHost, Row(At(back), device, bytes), kPageable).Wait(), CUDA_SUCCESS);
    EXPECT_EQ(back, sent) << bytes;
    EXPECT_EQ(backend_->MemoryFree(1, device), CUDA_SUCCESS);
  }
  EXPECT_EQ(backend_->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(card_.books->used(0), 0u);
}

TEST_P(SessionTest, RowsWithPitches) {
  constexpr uint64_t kWidth = 1000, kHeight = 700, kDevicePitch = 1024, kHostPitch = 1100;
  std::vector<uint8_t> out(kHostPitch * kHeight), back(kHostPitch * kHeight, 0xee);
  std::iota(out.begin(), out.end(), uint8_t{0});
  uint64_t device = Allocate(kDevicePitch * kHeight);
  CopyShape up{.destination = device,
               .destination_pitch = kDevicePitch,
               .destination_slice = kDevicePitch * kHeight,
               .source = At(out),
               .source_pitch = kHostPitch,
               .source_slice = kHostPitch * kHeight,
               .width = kWidth,
               .height = kHeight,
               .depth = 1};
  CopyShape down{.destination = At(back),
                 .destination_pitch = kHostPitch,
                 .destination_slice = kHostPitch * kHeight,
                 .source = device,
                 .source_pitch = kDevicePitch,
                 .source_slice = kDevicePitch * kHeight,
                 .width = kWidth,
                 .height = kHeight,
                 .depth = 1};
  ASSERT_EQ(backend_->Copy(1, 0, kToDevice, up, kPageable).Wait(), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Copy(1, 0, kToHost, down, kPageable).Wait(), CUDA_SUCCESS);
  for (uint64_t row = 0; row < kHeight; ++row) {
    ASSERT_EQ(std::memcmp(&back[row * kHostPitch], &out[row * kHostPitch], kWidth), 0) << row;
    if (row + 1 < kHeight) {
      ASSERT_EQ(back[row * kHostPitch + kWidth], 0xee) << "between rows nothing changes";
    }
  }
}

TEST_P(SessionTest, PinnedMemoryIsReadAndWrittenInStreamOrder) {
  Load();
  uint64_t device = Allocate(1024), host = 0;
  if (std::string_view(GetParam()) == "shm") {
    // The memory is at one address on both sides, and here both are one process. streams_overlap tests this with two.
    EXPECT_EQ(backend_->HostAllocate(1, 4096, 0, &host), CUDA_ERROR_ALREADY_MAPPED);
    return;
  }
  ASSERT_EQ(backend_->HostAllocate(1, 4096, 0, &host), CUDA_SUCCESS);
  auto* values = reinterpret_cast<uint32_t*>(host);
  std::fill(values, values + 256, 5u);
  ASSERT_EQ(backend_->StreamCreate(1, 2, 1, 0), CUDA_SUCCESS);
  // A host function changes the buffer before the copy behind it reads it.
  std::atomic<int> ran = 0;
  events_.on_host_function = [&](uint64_t token) {
    EXPECT_EQ(token, 77u);
    values[3] = 1000;
    ++ran;
  };
  ASSERT_EQ(backend_->StreamHostFunction(1, 2, 77), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Copy(1, 2, kToDevice, Row(device, host, 1024), 0).Wait(), CUDA_SUCCESS);
  ASSERT_EQ(Add(2, device, 1), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Copy(1, 2, kToHost, Row(host, device, 1024), 0).Wait(), CUDA_SUCCESS);
  ASSERT_EQ(backend_->StreamSynchronize(1, 2).Wait(), CUDA_SUCCESS);
  // Final when the wait is over.
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(values[0], 6u);
  EXPECT_EQ(values[3], 1001u);
  EXPECT_EQ(values[255], 6u);
  EXPECT_EQ(backend_->HostFree(1, host), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostFree(1, host), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(SessionTest, RegisteredMemoryToo) {
  Load();
  std::vector<uint32_t> values(256, 5);
  uint64_t device = Allocate(1024);
  ASSERT_EQ(backend_->HostRegister(1, At(values), 1024, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Copy(1, 0, kToDevice, Row(device, At(values), 1024), 0).Wait(), CUDA_SUCCESS);
  ASSERT_EQ(Add(0, device, 2), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Copy(1, 0, kToHost, Row(At(values), device, 1024), kWait).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(values, std::vector<uint32_t>(256, 7));
  EXPECT_EQ(backend_->HostUnregister(1, At(values)), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostUnregister(1, At(values)), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_P(SessionTest, WhatReturnedBeforeAnotherThreadsCallBeganRunsFirst) {
  Load();
  uint64_t device = Allocate(1024);
  ASSERT_EQ(backend_->Fill(1, 0, device, 1024, 4, 0, 1024, 1), CUDA_SUCCESS);
  // Threads take turns; each sees in its own copy everything that the others launched before its turn.
  std::mutex turn;
  uint32_t launched = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        std::lock_guard lock(turn);
        ASSERT_EQ(Add(0, device, 1), CUDA_SUCCESS);
        ++launched;
        std::vector<uint32_t> seen(256);
        ASSERT_EQ(backend_->Copy(1, 0, kToHost, Row(At(seen), device, 1024), kPageable).Wait(), CUDA_SUCCESS);
        ASSERT_EQ(seen, std::vector<uint32_t>(256, launched));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SessionTest, ThreadsWaitForTheirOwnAnswers) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint64_t bytes = 1000 + t * 300'000;
      std::vector<uint8_t> out(bytes, static_cast<uint8_t>(t + 1)), back(bytes);
      for (int i = 0; i < 10; ++i) {
        uint64_t device = Allocate(bytes);
        ASSERT_EQ(backend_->Copy(1, 0, kToDevice, Row(device, At(out), bytes), kPageable).Wait(), CUDA_SUCCESS);
        ASSERT_EQ(backend_->Copy(1, 0, kToHost, Row(At(back), device, bytes), kPageable).Wait(), CUDA_SUCCESS);
        ASSERT_EQ(back, out);
        ASSERT_EQ(backend_->MemoryFree(1, device), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SessionTest, AFailureOfAQueuedOperationComesOutAtTheNextWaitAndOnlyOnce) {
  uint64_t device = Allocate(4096);
  ASSERT_EQ(backend_->Fill(1, 0, device + 4000, 4096, 1, 0, 4096, 1), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamSynchronize(1, 0).Wait(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(backend_->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
}

TEST_P(SessionTest, EventsTimeAndOrder) {
  Load();
  uint64_t device = Allocate(1024);
  for (uint64_t stream : {2, 3}) ASSERT_EQ(backend_->StreamCreate(1, stream, 1, 0), CUDA_SUCCESS);
  for (uint64_t event : {4, 5}) ASSERT_EQ(backend_->EventCreate(1, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend_->Fill(1, 2, device, 1024, 4, 1, 1024, 1), CUDA_SUCCESS);
  ASSERT_EQ(backend_->EventRecord(1, 4, 2, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend_->StreamWaitEvent(1, 3, 4, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(3, device, 1), CUDA_SUCCESS);
  ASSERT_EQ(backend_->EventRecord(1, 5, 3, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend_->EventSynchronize(1, 5).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->EventQuery(1, 5), CUDA_SUCCESS);
  float milliseconds = -1;
  EXPECT_EQ(backend_->EventElapsed(1, 4, 5, &milliseconds), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  std::vector<uint32_t> seen(256);
  ASSERT_EQ(backend_->Copy(1, 3, kToHost, Row(At(seen), device, 1024), kPageable).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(seen, std::vector<uint32_t>(256, 2));
}

TEST_P(SessionTest, AnImageIsSentOnceForAllSessions) {
  Load();
  uint64_t calls = server_->stats().calls;
  auto other = Connect();
  ASSERT_EQ(other->ContextCreate(1, 0, 0), CUDA_SUCCESS);
  cuda::ModuleFacts facts;
  ASSERT_EQ(other->ModuleLoad(1, 2, std::as_bytes(std::span(kKernels, sizeof kKernels - 1)), &facts), CUDA_SUCCESS);
  EXPECT_EQ(facts.kernels.size(), 1u);
  EXPECT_EQ(server_->stats().calls - calls, 2u) << "context, and the module found by its hash";
  uint64_t address = 0, size = 0;
  EXPECT_EQ(other->ModuleGlobal(1, 2, "counter", &address, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(other->ModuleGlobal(1, 2, "none", &address, &size), CUDA_ERROR_NOT_FOUND);
}

TEST_P(SessionTest, WhenTheWorkerEndsEveryCallSaysSo) {
  ASSERT_EQ(backend_->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
  server_->Stop();
  uint64_t address;
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS) result = backend_->MemoryAllocate(1, 16, &address);
  EXPECT_EQ(result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(backend_->StreamSynchronize(1, 0).Wait(), CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(backend_->EventCreate(1, 8, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

INSTANTIATE_TEST_SUITE_P(All, SessionTest, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace tf::remoting
