// The encoding of backend operations on the wire: little-endian scalars without padding, strings and vectors with a
// 32-bit count in front. The peer is hostile: Reader reads each byte at most once (the bytes may be shared memory that
// changes meanwhile), bounds every count by the bytes that are left, and stays failed once it failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace tf::cuda {

template <class T>
concept WireScalar = std::is_arithmetic_v<T>;
// Structs of backend.table list their members in kFields.
template <class T>
concept WireStruct = requires { T::kFields; };

// Room for the bytes of an output that an operation fills whole; not cleared before, which would cost as much as the
// filling.
class OutputBuffer {
 public:
  void resize(size_t size) {
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
    size_ = size;
  }
  std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  std::byte* begin() const { return data(); }
  std::byte* end() const { return data() + size_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_ = 0;
};

class Writer {
 public:
  // `at` has room for WireSize of everything that will be put.
  explicit Writer(std::byte* at) : at_(at) {}
  std::byte* at() const { return at_; }

  template <WireScalar T>
  void Put(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  void Put(std::string_view text) { PutBytes(text.data(), text.size()); }
  void Put(std::span<const std::byte> bytes) { PutBytes(bytes.data(), bytes.size()); }
  template <class T>
  void Put(const std::vector<T>& items) {
    Put(static_cast<uint32_t>(items.size()));
    for (const T& item : items) Put(item);
  }
  template <WireStruct T>
  void Put(const T& value) {
    std::apply([&](auto... member) { (Put(value.*member), ...); }, T::kFields);
  }

 private:
  void PutBytes(const void* data, size_t size) {
    Put(static_cast<uint32_t>(size));
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }
  std::byte* at_;
};

template <WireScalar T>
constexpr size_t WireSize(T) {
  return sizeof(T);
}
inline size_t WireSize(std::string_view text) { return 4 + text.size(); }
inline size_t WireSize(std::span<const std::byte> bytes) { return 4 + bytes.size(); }
template <WireStruct T>
size_t WireSize(const T& value);
template <class T>
size_t WireSize(const std::vector<T>& items) {
  size_t size = 4;
  for (const T& item : items) size += WireSize(item);
  return size;
}
template <WireStruct T>
size_t WireSize(const T& value) {
  return std::apply([&](auto... member) { return (size_t{0} + ... + WireSize(value.*member)); }, T::kFields);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // Everything was there. Values got after a failure are empty.
  bool ok() const { return ok_; }
  // Everything was there and nothing is left over.
  bool done() const { return ok_ && bytes_.empty(); }

  template <WireScalar T>
  void Get(T* value) {
    *value = T{};
    if (!Need(sizeof *value)) return;
    std::memcpy(value, bytes_.data(), sizeof *value);
    bytes_ = bytes_.subspan(sizeof *value);
  }
  void Get(std::string* text) {
    std::string_view view;
    Get(&view);
    text->assign(view);
  }
  // Views into the received bytes: their content may change if those are shared memory.
  void Get(std::string_view* text) {
    std::span<const std::byte> bytes;
    Get(&bytes);
    *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void Get(std::span<const std::byte>* bytes) {
    *bytes = {};
    uint32_t size;
    Get(&size);
    if (!Need(size)) return;
    *bytes = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
  }
  template <class T>
  void Get(std::vector<T>* items) {
    items->clear();
    uint32_t count;
    Get(&count);
    // Every item takes at least one byte, so a count beyond the bytes left is a lie.
    if (!Need(count)) return;
    for (uint32_t i = 0; i < count && ok_; ++i) {
      T item;
      Get(&item);
      if (ok_) items->push_back(std::move(item));
    }
  }
  template <WireStruct T>
  void Get(T* value) {
    std::apply([&](auto... member) { (Get(&(value->*member)), ...); }, T::kFields);
  }
  // Fills exactly `out`.
  void Fill(std::span<std::byte> out) {
    std::span<const std::byte> bytes;
    Get(&bytes);
    if (bytes.size() != out.size()) ok_ = false;
    if (ok_ && !out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  }

 private:
  bool Need(size_t size) {
    if (ok_ && size > bytes_.size()) ok_ = false;
    return ok_;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace tf::cuda
