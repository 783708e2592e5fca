// What of an object is kept in a cache: a copy of the wanted fields in one small block of memory.
//
// A pod as the server sends it takes 20 to 40 kB as a tree; what a controller reads of it often fits in one. A path
// names keys ("spec.nodeName"); an array on the way means each of its elements ("spec.containers.name"). metadata.name,
// .namespace, .uid and .resourceVersion are always kept. Immutable, hence thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kube/object.h"

namespace tf::kube {

class Trim {
 public:
  // No paths: all of an object is kept.
  explicit Trim(const std::vector<std::string>& paths);

  ObjectPtr operator()(const ObjectPtr& object) const;

 private:
  struct Node {
    bool whole = false;  // all below is kept
    std::map<std::string, Node, std::less<>> children = {};
  };

  static Json Copy(const Json& value, const Node& node, const boost::json::storage_ptr& storage);

  Node root_;
};

}  // namespace tf::kube
