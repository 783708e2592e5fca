// The CustomResourceDefinitions of tensor-fusion.ai/v1 as JSON texts: those of the chart, from the same table.
#pragma once

#include <string_view>
#include <vector>

namespace tf::api {

const std::vector<std::string_view>& CustomResourceDefinitions();

}  // namespace tf::api
