#include "kube/trim.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/value_stack.hpp>
#include <exception>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kube/parse_briefly.h"

namespace tf::kube {

namespace {

constexpr size_t kScratch = 256 << 10;  // bytes that a thread keeps for parsing

}  // namespace

// Takes the parser's tokens and hands those that are kept to a stack of values.
class Trim::Handler {
 public:
  static constexpr size_t max_object_size = JsonObject::max_size();
  static constexpr size_t max_array_size = JsonArray::max_size();
  static constexpr size_t max_key_size = boost::json::string::max_size();
  static constexpr size_t max_string_size = boost::json::string::max_size();

  using Text = boost::json::string_view;
  using Error = boost::json::error_code;

  void Reset(const Node* root, boost::json::storage_ptr storage) {
    values_.reset(std::move(storage));
    root_ = root;
    frames_.clear();
    key_.clear();
    skipped_ = 0;
  }
  Json Release() { return values_.release(); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return Begin(true); }
  bool on_object_end(size_t, Error&) {
    if (!End()) return true;
    values_.push_object(frames_.back().count);
    return Close();
  }
  bool on_array_begin(Error&) { return Begin(false); }
  bool on_array_end(size_t, Error&) {
    if (!End()) return true;
    values_.push_array(frames_.back().count);
    return Close();
  }
  bool on_key_part(Text part, size_t, Error&) {
    if (skipped_ == 0) key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, size_t, Error&) {
    if (skipped_ > 0) return true;
    std::string_view key(part.data(), part.size());
    if (!key_.empty()) key = key_.append(key);
    Frame& frame = frames_.back();
    frame.next = frame.node->whole ? frame.node : frame.node->Find(key);
    if (frame.next != nullptr) values_.push_key(key);
    key_.clear();
    return true;
  }
  bool on_string_part(Text part, size_t, Error&) {
    if (Wanted() == Want::kWhole) values_.push_chars(part);
    return true;
  }
  bool on_string(Text part, size_t, Error&) {
    return Scalar([&] { values_.push_string(part); });
  }
  bool on_number_part(Text, Error&) { return true; }
  bool on_int64(int64_t number, Text, Error&) {
    return Scalar([&] { values_.push_int64(number); });
  }
  bool on_uint64(uint64_t number, Text, Error&) {
    return Scalar([&] { values_.push_uint64(number); });
  }
  bool on_double(double number, Text, Error&) {
    return Scalar([&] { values_.push_double(number); });
  }
  bool on_bool(bool value, Error&) {
    return Scalar([&] { values_.push_bool(value); });
  }
  bool on_null(Error&) {
    return Scalar([&] { values_.push_null(); });
  }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  struct Frame {
    const Node* node;
    const Node* next;  // of the value that comes; null: not kept
    bool is_object;
    size_t count = 0;  // values kept
  };
  enum class Want { kNothing, kNull, kWhole };

  const Node* Next() const { return frames_.empty() ? root_ : frames_.back().next; }
  Want Wanted() const {
    if (skipped_ > 0 || Next() == nullptr) return Want::kNothing;
    return Next()->whole ? Want::kWhole : Want::kNull;  // there is nothing below a string or a number
  }
  bool Begin(bool is_object) {
    const Node* node = Next();
    if (skipped_ > 0 || node == nullptr) {
      ++skipped_;
    } else {
      frames_.push_back({node, node, is_object});
    }
    return true;
  }
  // False: what ends was not kept.
  bool End() {
    if (skipped_ == 0) return true;
    --skipped_;
    return false;
  }
  bool Close() {
    frames_.pop_back();
    if (!frames_.empty()) ++frames_.back().count;
    return true;
  }
  template <typename Push>
  bool Scalar(Push push) {
    const Want want = Wanted();
    if (want == Want::kNothing) return true;
    if (want == Want::kWhole) {
      push();
    } else {
      values_.push_null();
    }
    if (!frames_.empty()) ++frames_.back().count;
    return true;
  }

  boost::json::value_stack values_;
  const Node* root_ = nullptr;
  std::vector<Frame> frames_;
  std::string key_;     // the parts of a key that comes in parts
  size_t skipped_ = 0;  // depth below what is not kept
};

struct Trim::Scratch {
  static boost::json::parse_options Limits() {
    boost::json::parse_options options;
    options.max_depth = 128;
    return options;
  }

  boost::json::basic_parser<Handler> parser{Limits()};
  std::unique_ptr<unsigned char[]> memory{new unsigned char[kScratch]};
  bool busy = false;
};

const Trim::Node* Trim::Node::Find(std::string_view key) const {
  for (const auto& [name, child] : children) {
    if (name == key) return &child;
  }
  return nullptr;
}

Trim::Node& Trim::Node::Make(std::string_view key) {
  for (auto& [name, child] : children) {
    if (name == key) return child;
  }
  return children.emplace_back(std::string(key), Node()).second;
}

Trim::Trim(const std::vector<std::string>& paths) {
  if (paths.empty()) {
    root_.whole = true;
  } else {
    std::vector<std::string> all = {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"};
    all.insert(all.end(), paths.begin(), paths.end());
    for (const std::string& path : all) {
      Node* node = &root_;
      for (std::string_view rest = path; !rest.empty();) {
        const size_t dot = rest.find('.');
        node = &node->Make(rest.substr(0, dot));
        rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
      }
      node->whole = true;
    }
  }
  event_.Make("type").whole = true;
  event_.Make("object") = root_;
}

ObjectPtr Trim::operator()(const Json& object) const {
  if (root_.whole) return Compact(object);
  unsigned char scratch[16 << 10];
  boost::json::monotonic_resource arena(scratch);
  return Compact(Copy(object, root_, &arena));
}

Json Trim::Copy(const Json& value, const Node& node, const boost::json::storage_ptr& storage) {
  if (node.whole) return Json(value, storage);
  if (const JsonArray* array = value.if_array()) {
    JsonArray copy(storage);
    copy.reserve(array->size());
    for (const Json& element : *array) copy.push_back(Copy(element, node, storage));
    return copy;
  }
  const JsonObject* object = value.if_object();
  if (object == nullptr) return Json(storage);  // null: there is nothing below a string or a number
  JsonObject copy(storage);
  copy.reserve(node.children.size());
  for (const auto& [key, child] : node.children) {
    if (const Json* field = object->if_contains(key)) copy.emplace(key, Copy(*field, child, storage));
  }
  return copy;
}

absl::Status Trim::ParseEvent(std::string_view text, const std::function<absl::Status(Json& event)>& use) const {
  thread_local Scratch scratch;
  // Where all is kept there is nothing to save; and `use` may parse something else.
  if (root_.whole || scratch.busy) return ParseBriefly(text, use);
  scratch.busy = true;
  boost::json::monotonic_resource memory(scratch.memory.get(), kScratch);
  struct Release {  // before the memory goes
    ~Release() {
      scratch.parser.handler().Reset(nullptr, {});
      scratch.busy = false;
    }
  } release;
  scratch.parser.handler().Reset(&event_, &memory);
  scratch.parser.reset();
  boost::json::error_code error;
  size_t parsed = 0;
  try {
    parsed = scratch.parser.write_some(false, text.data(), text.size(), error);
    if (!error && parsed < text.size()) error = boost::json::error::extra_data;
  } catch (const std::exception& thrown) {
    return absl::ResourceExhaustedError(absl::StrCat("JSON of ", text.size(), " bytes: ", thrown.what()));
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("no valid JSON: ", error.message(), " at byte ", parsed, " of ", text.size()));
  }
  Json event = scratch.parser.handler().Release();
  return use(event);
}

}  // namespace tf::kube
