// For tests: a small device memory, and one call that parses, places globals and runs a kernel.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simgpu/ptx/executor.h"
#include "simgpu/ptx/program.h"

namespace tf::simgpu::ptx {

class Device : public Heap {
 public:
  static constexpr uint64_t kBytes = 16 << 20;
  static constexpr uint32_t kShift = 12;

  Device() : memory_(kBytes + 4096), pages_(kBytes >> kShift, 0) {
    base_ = (reinterpret_cast<uint64_t>(memory_.data()) + 4095) & ~uint64_t{4095};
  }

  uint64_t Allocate(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    uint64_t pages = (std::max<uint64_t>(bytes, 1) + 4095) >> kShift;
    if (next_ + pages + 1 > pages_.size()) return 0;
    for (uint64_t i = 0; i < pages; ++i) pages_[next_ + i] = 3;
    uint64_t address = base_ + (next_ << kShift);
    next_ += pages + 1;  // an unmapped page between allocations
    ++allocations_;
    return address;
  }
  void Free(uint64_t address) override {
    std::lock_guard lock(mutex_);
    if (address != 0) --allocations_;
  }
  void Protect(uint64_t address, uint8_t bits) { pages_[(address - base_) >> kShift] = bits; }

  template <typename T>
  uint64_t Put(const std::vector<T>& values) {
    uint64_t address = Allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> Get(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
    return values;
  }
  AddressMap Map() const { return {.base = base_, .size = kBytes, .pages = pages_.data(), .page_shift = kShift}; }
  int allocations() const { return allocations_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<uint8_t> pages_;
  uint64_t base_ = 0;
  uint64_t next_ = 1;
  int allocations_ = 0;
  std::mutex mutex_;
};

// A loaded program with its globals in device memory.
struct Loaded {
  std::unique_ptr<Program> program;
  std::map<std::string, uint64_t> addresses;

  int Kernel(std::string_view name) const {
    for (size_t i = 0; i < program->kernels().size(); ++i) {
      if (program->kernels()[i].name.find(name) != std::string::npos) return static_cast<int>(i);
    }
    return -1;
  }
};

inline Loaded Load(Device& device, std::string_view text, bool plain_only = false) {
  auto parsed = Program::Parse(text, 90, plain_only);
  EXPECT_TRUE(parsed.ok()) << std::string(parsed.status().message());
  Loaded loaded;
  if (!parsed.ok()) return loaded;
  loaded.program = std::move(*parsed);
  std::vector<uint64_t> addresses;
  for (const GlobalVariable& g : loaded.program->globals()) {
    uint64_t address = device.Allocate(g.size);
    std::memset(reinterpret_cast<void*>(address), 0, g.size);
    std::memcpy(reinterpret_cast<void*>(address), g.initial.data(), g.initial.size());
    addresses.push_back(address);
    loaded.addresses[g.name] = address;
  }
  for (const GlobalVariable& g : loaded.program->globals()) {
    for (const auto& r : g.relocations) {
      uint64_t value = loaded.addresses.at(r.symbol) + static_cast<uint64_t>(r.addend);
      std::memcpy(reinterpret_cast<void*>(loaded.addresses.at(g.name) + r.offset), &value,
                  static_cast<size_t>(r.bytes));
    }
  }
  EXPECT_TRUE(loaded.program->Bind(addresses).ok());
  return loaded;
}

// Kernel parameters, packed as a kernel expects them.
class Parameters {
 public:
  template <typename... T>
  explicit Parameters(const T&... values) {
    (Add(values), ...);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <typename T>
  void Add(const T& value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
  }
  std::vector<std::byte> bytes_;
};

struct Output {
  std::mutex mutex;
  std::string out, error;
};

inline LaunchResult Launch(Device& device, const Loaded& loaded, std::string_view kernel, std::array<uint32_t, 3> grid,
                           std::array<uint32_t, 3> block, const Parameters& parameters, uint32_t dynamic_shared = 0,
                           Output* output = nullptr, int threads = 2) {
  static Executor two(2);
  static Executor one(1);
  LaunchConfig config;
  config.grid = grid;
  config.block = block;
  config.dynamic_shared_bytes = dynamic_shared;
  config.parameters = parameters.bytes();
  config.memory = device.Map();
  config.heap = &device;
  if (output != nullptr) {
    config.print = [output](std::string_view text) {
      std::lock_guard lock(output->mutex);
      output->out += text;
    };
    config.print_error = [output](std::string_view text) {
      std::lock_guard lock(output->mutex);
      output->error += text;
    };
  }
  int index = loaded.Kernel(kernel);
  EXPECT_GE(index, 0) << kernel;
  return (threads == 1 ? one : two).Run(*loaded.program, index, config);
}

}  // namespace tf::simgpu::ptx
