#include "kube/object.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/string.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "absl/strings/str_cat.h"
#include "kube/parse_briefly.h"

namespace tf::kube {
namespace {

constexpr size_t kScratch = 1 << 20;  // bytes that a thread keeps for parsing

boost::json::parse_options Limits() {
  boost::json::parse_options options;
  options.max_depth = 128;
  return options;
}

size_t RoundUp(size_t size, size_t align) { return (size + align - 1) & ~(align - 1); }

// Memory of a block: tables of values grow from the front and texts from the back, so that nothing is lost to
// alignment. What does not fit, for the size was an estimate, goes into a chain of pieces of its own.
class BlockMemory final : public boost::json::memory_resource {
 public:
  BlockMemory(char* begin, size_t size, void** chain) : front_(begin), back_(begin + size), chain_(chain) {}

 private:
  void* do_allocate(size_t size, size_t align) override {
    const size_t rounded = RoundUp(size, alignof(void*));
    if (rounded + align > static_cast<size_t>(back_ - front_)) {
      void* piece = std::malloc(sizeof(std::max_align_t) + size);
      if (piece == nullptr) throw std::bad_alloc();
      *static_cast<void**>(piece) = *chain_;
      *chain_ = piece;
      return static_cast<char*>(piece) + sizeof(std::max_align_t);
    }
    if (align < alignof(void*)) {
      back_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(back_) - size) & ~(uintptr_t{align} - 1));
      return back_;
    }
    char* at = front_;
    front_ += rounded;
    return at;
  }
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  char* front_;
  char* back_;
  void** chain_;
};

// A copy of a value is made with the memory of the original (Boost.JSON's rule), so a plain `Json copy = *cached` would
// lie in the block too, without keeping it alive, and two threads would allocate in it. Hence the values of a finished
// block name the heap as their memory. They are never changed or destroyed, so none of them returns anything to it.
void NameTheHeap(const Json& value) {
  auto name = [](const boost::json::storage_ptr& storage) {
    const_cast<boost::json::storage_ptr&>(storage) = boost::json::storage_ptr();
  };
  if (value.is_object()) {
    name(value.get_object().storage());
    for (const auto& member : value.get_object()) NameTheHeap(member.value());
  } else if (value.is_array()) {
    name(value.get_array().storage());
    for (const Json& item : value.get_array()) NameTheHeap(item);
  } else if (value.is_string()) {
    name(value.get_string().storage());
  } else {
    name(value.storage());
  }
}

// An object, and behind it in the same piece of memory all that it consists of.
class Block {
 public:
  Block(const Json& from, size_t size) {
    BlockMemory memory(reinterpret_cast<char*>(this + 1), size, &chain_);
    new (value_) Json(from, boost::json::storage_ptr(&memory));
    NameTheHeap(value());
  }
  ~Block() {
    while (chain_ != nullptr) {
      void* piece = chain_;
      chain_ = *static_cast<void**>(piece);
      std::free(piece);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const Json& value() const { return *std::launder(reinterpret_cast<const Json*>(value_)); }

 private:
  void* chain_ = nullptr;
  alignas(Json) unsigned char value_[sizeof(Json)];  // never destroyed
};

// What a copy takes in a Block, as Boost.JSON lays values out.
size_t SizeOf(const Json& value) {
  constexpr size_t kTable = 16, kStringHead = 8, kShort = 14, kIndexed = 18;
  switch (value.kind()) {
    case boost::json::kind::object: {
      const JsonObject& object = value.get_object();
      if (object.empty()) return 0;
      size_t size = kTable + object.size() * sizeof(boost::json::key_value_pair);
      if (object.size() > kIndexed) size += RoundUp(object.size() * sizeof(uint32_t), alignof(void*));
      for (const auto& member : object) size += member.key().size() + 1 + SizeOf(member.value());
      return size;
    }
    case boost::json::kind::array: {
      const JsonArray& array = value.get_array();
      if (array.empty()) return 0;
      size_t size = kTable + array.size() * sizeof(Json);
      for (const Json& item : array) size += SizeOf(item);
      return size;
    }
    case boost::json::kind::string: {
      const size_t length = value.get_string().size();
      if (length <= kShort) return 0;
      return kStringHead + std::max(length, 2 * kShort) + 1 + 3;
    }
    default:
      return 0;
  }
}

// Allocates what std::allocate_shared asks for and `extra` bytes behind it.
template <typename T>
struct BlockAllocator {
  using value_type = T;
  size_t extra;

  explicit BlockAllocator(size_t extra) : extra(extra) {}
  template <typename U>
  BlockAllocator(const BlockAllocator<U>& other) : extra(other.extra) {}

  T* allocate(size_t) {
    void* at = std::malloc(sizeof(T) + extra);
    if (at == nullptr) throw std::bad_alloc();
    return static_cast<T*>(at);
  }
  void deallocate(T* at, size_t) { std::free(at); }
  template <typename U>
  bool operator==(const BlockAllocator<U>&) const {
    return true;
  }
};

absl::Status ParseError(std::string_view text, size_t at, const boost::json::error_code& error) {
  std::string message = absl::StrCat("no valid JSON: ", error.message(), " at byte ", at, " of ", text.size());
  return absl::InvalidArgumentError(message);
}

// Parses all of `text` by `parser`, which was reset.
absl::Status ParseAll(boost::json::parser& parser, std::string_view text) {
  boost::json::error_code error;
  size_t parsed = 0;
  try {
    parsed = parser.write(text.data(), text.size(), error);
  } catch (const std::exception& thrown) {
    return absl::ResourceExhaustedError(absl::StrCat("JSON of ", text.size(), " bytes: ", thrown.what()));
  }
  return error ? ParseError(text, parsed, error) : absl::OkStatus();
}

struct Scratch {
  boost::json::parser parser{boost::json::storage_ptr(), Limits()};
  std::unique_ptr<unsigned char[]> memory{new unsigned char[kScratch]};
  bool busy = false;
};

}  // namespace

absl::Status ParseBriefly(std::string_view text, const std::function<absl::Status(Json& value)>& use) {
  thread_local Scratch scratch;
  if (scratch.busy) {  // `use` parses something else
    absl::StatusOr<Json> value = ParseJson(text);
    return value.ok() ? use(*value) : value.status();
  }
  scratch.busy = true;
  struct Release {
    ~Release() {
      scratch.parser.reset();
      scratch.busy = false;
    }
  } release;
  boost::json::monotonic_resource memory(scratch.memory.get(), kScratch);
  scratch.parser.reset(&memory);
  if (absl::Status status = ParseAll(scratch.parser, text); !status.ok()) return status;
  Json value = scratch.parser.release();
  return use(value);
}

absl::StatusOr<Json> ParseJson(std::string_view text) {
  boost::json::parser parser(boost::json::storage_ptr(), Limits());
  if (absl::Status status = ParseAll(parser, text); !status.ok()) return status;
  return parser.release();
}

absl::StatusOr<ObjectPtr> ParseShared(std::string_view text) {
  ObjectPtr object;
  absl::Status status = ParseBriefly(text, [&](Json& value) {
    object = Compact(value);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return object;
}

ObjectPtr Compact(const Json& object) {
  const size_t size = RoundUp(SizeOf(object), alignof(void*)) + alignof(void*);
  auto block = std::allocate_shared<Block>(BlockAllocator<Block>(size), object, size);
  return ObjectPtr(block, &block->value());
}

const Json* FieldAt(const Json& object, std::initializer_list<std::string_view> keys) {
  const Json* at = &object;
  for (std::string_view key : keys) {
    const JsonObject* inside = at->if_object();
    at = inside == nullptr ? nullptr : inside->if_contains(key);
    if (at == nullptr) return nullptr;
  }
  return at;
}

const Json* Field(const Json& object, std::string_view path) {
  const Json* at = &object;
  while (at != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    at = FieldAt(*at, {path.substr(0, dot)});
    path = dot == path.npos ? "" : path.substr(dot + 1);
  }
  return at;
}

std::string_view Text(const Json& object, std::string_view path) {
  const Json* field = Field(object, path);
  const boost::json::string* text = field == nullptr ? nullptr : field->if_string();
  return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

int64_t Number(const Json& object, std::string_view path, int64_t otherwise) {
  const Json* field = Field(object, path);
  if (field == nullptr || !field->is_number()) return otherwise;
  boost::json::error_code error;
  const int64_t number = field->to_number<int64_t>(error);
  return error ? otherwise : number;
}

bool Flag(const Json& object, std::string_view path, bool otherwise) {
  const Json* field = Field(object, path);
  const bool* flag = field == nullptr ? nullptr : field->if_bool();
  return flag == nullptr ? otherwise : *flag;
}

Json& EnsureField(Json& object, std::string_view path) {
  Json* at = &object;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    if (!at->is_object()) at->emplace_object();
    at = &at->get_object()[path.substr(0, dot)];
    path = dot == path.npos ? "" : path.substr(dot + 1);
  }
  return *at;
}

namespace {

std::string_view TextAt(const Json& object, std::initializer_list<std::string_view> keys) {
  const Json* field = FieldAt(object, keys);
  const boost::json::string* text = field == nullptr ? nullptr : field->if_string();
  return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

}  // namespace

std::string_view Name(const Json& object) { return TextAt(object, {"metadata", "name"}); }
std::string_view Namespace(const Json& object) { return TextAt(object, {"metadata", "namespace"}); }
std::string_view Uid(const Json& object) { return TextAt(object, {"metadata", "uid"}); }
std::string_view ResourceVersion(const Json& object) { return TextAt(object, {"metadata", "resourceVersion"}); }

std::string_view Label(const Json& object, std::string_view name) {
  return TextAt(object, {"metadata", "labels", name});
}

std::string_view Annotation(const Json& object, std::string_view name) {
  return TextAt(object, {"metadata", "annotations", name});
}

Key KeyOf(const Json& object) { return {std::string(Namespace(object)), std::string(Name(object))}; }

bool IsBeingDeleted(const Json& object) {
  const Json* at = FieldAt(object, {"metadata", "deletionTimestamp"});
  return at != nullptr && !at->is_null();
}

}  // namespace tf::kube
