#include "api/crds.h"

namespace tf::api {

const std::vector<std::string_view>& CustomResourceDefinitions() {
  static const auto* definitions = new std::vector<std::string_view>{
#include "crds.inc"
  };
  return *definitions;
}

}  // namespace tf::api
