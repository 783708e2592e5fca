// What of an object is kept in a cache: a copy of the wanted fields in one small block of memory.
//
// A pod as the server sends it takes 20 to 40 kB as a tree; what a controller reads of it often fits in one. A path
// names keys ("spec.nodeName"); an array on the way means each of its elements ("spec.containers.name"). metadata.name,
// .namespace, .uid and .resourceVersion are always kept. Immutable, hence thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kube/object.h"

namespace tf::kube {

class Trim {
 public:
  // No paths: all of an object is kept.
  explicit Trim(const std::vector<std::string>& paths);

  ObjectPtr operator()(const Json& object) const;

  // Parses the event of a watch, {"type":…,"object":…}, and makes no more of it than its type and what is kept of the
  // object: the rest is only checked to be JSON. Otherwise as ParseBriefly.
  absl::Status ParseEvent(std::string_view text, const std::function<absl::Status(Json& event)>& use) const;

 private:
  struct Node {
    bool whole = false;                                       // all below is kept
    std::vector<std::pair<std::string, Node>> children = {};  // a few: looked through faster than looked up

    const Node* Find(std::string_view key) const;
    Node& Make(std::string_view key);
  };
  class Handler;
  struct Scratch;

  static Json Copy(const Json& value, const Node& node, const boost::json::storage_ptr& storage);

  Node root_;
  Node event_;
};

}  // namespace tf::kube
