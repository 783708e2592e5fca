// What a program feels of the way to its GPU, by the driver API. The same program runs directly on a driver and through
// a worker (tools/bench does both, and compares); one line for each figure: `name value`, times in microseconds, rates
// in GB/s.
//
//   remoting_bench gpu [START]   calls, launches and copies on whichever libcuda.so.1 is there. START: when this
//   process
//                                was started, nanoseconds since 1970, for the time to the first kernel
//   remoting_bench bare          memcpy and a bare TCP socket on loopback, for the same sizes
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tensor_fusion/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20};
constexpr int kRounds = 5;

constexpr char kPtx[] = R"(
.version 6.3
.target sm_75
.address_size 64
.visible .entry nothing()
{
    ret;
}
)";

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "remoting_bench: %s: error %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define CHECK_DRIVER(call) Check((call), #call)

double Now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Print(const std::string& name, double value) {
  std::printf("%s %.6g\n", name.c_str(), value);
  std::fflush(stdout);
}

// The median over rounds of microseconds for each of `count` calls.
double Each(int count, const std::function<void()>& call, const std::function<void()>& after = [] {}) {
  std::vector<double> rounds;
  for (int round = 0; round <= kRounds; ++round) {
    const double begin = Now();
    for (int i = 0; i < count; ++i) call();
    rounds.push_back((Now() - begin) / count);
    after();
  }
  rounds.erase(rounds.begin());  // warms up
  return Median(rounds);
}

// So many copies of a size that a round takes a while, but not long.
int Times(size_t size) { return static_cast<int>(std::clamp<size_t>((32 << 20) / size, 1, 500)); }

double Rate(size_t size, double microseconds) { return static_cast<double>(size) / microseconds / 1e3; }

void Gpu(const char* started) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction nothing;
  CUstream stream;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuModuleLoadData(&module, kPtx));
  CHECK_DRIVER(cuModuleGetFunction(&nothing, module, "nothing"));
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  auto launch = [&] { CHECK_DRIVER(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr)); };
  auto synchronise = [&] { CHECK_DRIVER(cuStreamSynchronize(stream)); };
  launch();
  synchronise();
  if (started != nullptr) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    Print("first_kernel",
          std::chrono::duration<double, std::micro>(now - std::chrono::nanoseconds(std::atoll(started))).count());
  }

  size_t free_bytes, total;
  Print("call", Each(2000, [&] { CHECK_DRIVER(cuMemGetInfo(&free_bytes, &total)); }));
  // What the caller pays for a launch, and how many the whole chain gets done.
  Print("launch", Each(200, launch, synchronise));
  Print("launch_and_wait", Each(500, [&] {
          launch();
          synchronise();
        }));
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    constexpr int kLaunches = 5000;
    const double begin = Now();
    for (int i = 0; i < kLaunches; ++i) launch();
    synchronise();
    rounds.push_back(kLaunches / (Now() - begin) * 1e6);
  }
  Print("launches_per_second", Median(rounds));

  CUdeviceptr memory;
  CHECK_DRIVER(cuMemAlloc(&memory, kSizes[std::size(kSizes) - 1]));
  std::vector<char> pageable(kSizes[std::size(kSizes) - 1], 1);
  for (size_t size : kSizes) {
    void* pinned;
    CHECK_DRIVER(cuMemAllocHost(&pinned, size));
    std::memset(pinned, 1, size);
    const std::string bytes = std::to_string(size);
    auto copy = [&](const std::string& name, const std::function<void()>& call) {
      Print(name + "_" + bytes, Rate(size, Each(Times(size), call)));
    };
    copy("to_device", [&] { CHECK_DRIVER(cuMemcpyHtoD(memory, pageable.data(), size)); });
    copy("from_device", [&] { CHECK_DRIVER(cuMemcpyDtoH(pageable.data(), memory, size)); });
    copy("pinned_to_device", [&] {
      CHECK_DRIVER(cuMemcpyHtoDAsync(memory, pinned, size, stream));
      synchronise();
    });
    copy("pinned_from_device", [&] {
      CHECK_DRIVER(cuMemcpyDtoHAsync(pinned, memory, size, stream));
      synchronise();
    });
    CHECK_DRIVER(cuMemFreeHost(pinned));
  }
  CHECK_DRIVER(cuMemFree(memory));
}

struct Sockets {
  int client, server;
  Sockets() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0) std::abort();
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(client, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
    server = accept(listener, nullptr, nullptr);
    close(listener);
    const int on = 1;
    for (int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Sockets() {
    close(client);
    close(server);
  }
};

void Bare() {
  constexpr size_t kMost = kSizes[std::size(kSizes) - 1];
  std::vector<char> from(kMost, 1), to(kMost, 2);
  for (size_t size : kSizes) {
    Print("memcpy_" + std::to_string(size), Rate(size, Each(Times(size), [&] {
                                                   std::memcpy(to.data(), from.data(), size);
                                                   asm volatile("" : : "r"(to.data()) : "memory");
                                                 })));
  }
  // The peer takes `size` bytes and answers with one: a copy whose end is known.
  for (size_t size : kSizes) {
    Sockets sockets;
    std::thread peer([&] {
      for (size_t left = size;;) {
        const ssize_t got = recv(sockets.server, to.data(), left, 0);
        if (got <= 0) return;
        left -= static_cast<size_t>(got);
        if (left > 0) continue;
        left = size;
        if (send(sockets.server, "", 1, MSG_NOSIGNAL) != 1) return;
      }
    });
    const double each = Each(Times(size), [&] {
      for (size_t sent = 0; sent < size;) {
        const ssize_t now = send(sockets.client, from.data() + sent, size - sent, MSG_NOSIGNAL);
        if (now <= 0) std::abort();
        sent += static_cast<size_t>(now);
      }
      char answer;
      if (recv(sockets.client, &answer, 1, 0) != 1) std::abort();
    });
    Print("socket_" + std::to_string(size), Rate(size, each));
    shutdown(sockets.client, SHUT_RDWR);
    peer.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "gpu" && argc <= 3) {
    Gpu(argc == 3 ? argv[2] : nullptr);
  } else if (what == "bare" && argc == 2) {
    Bare();
  } else {
    std::fprintf(stderr, "usage: remoting_bench gpu [START] | bare\n");
    return 2;
  }
}
