#include "kube/trim.h"

#include <boost/json/monotonic_resource.hpp>
#include <string_view>

namespace tf::kube {

Trim::Trim(const std::vector<std::string>& paths) {
  if (paths.empty()) {
    root_.whole = true;
    return;
  }
  std::vector<std::string> all = {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"};
  all.insert(all.end(), paths.begin(), paths.end());
  for (const std::string& path : all) {
    Node* node = &root_;
    for (std::string_view rest = path; !rest.empty();) {
      const size_t dot = rest.find('.');
      node = &node->children[std::string(rest.substr(0, dot))];
      rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    }
    node->whole = true;
  }
}

ObjectPtr Trim::operator()(const ObjectPtr& object) const {
  if (root_.whole) return object;
  unsigned char scratch[16 << 10];
  boost::json::monotonic_resource arena(scratch);
  return Compact(Copy(*object, root_, &arena));
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

}  // namespace tf::kube
