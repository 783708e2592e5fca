// How much of a GPU: compute in TFLOPS (FP16) or percent of a card, memory in bytes. Amounts are for one GPU.
#pragma once

#include <boost/describe/class.hpp>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/quantity.h"

namespace tf::api {

struct Resource {
  JsonObject extra = {};
  Quantity tflops = {};
  Quantity compute = {};  // percent of a card; 0: by tflops
  Quantity vram = {};

  static constexpr std::string_view kAlways[] = {"tflops", "vram"};
};
BOOST_DESCRIBE_STRUCT(Resource, (), (tflops, compute, vram))

struct Resources {
  JsonObject extra = {};
  Resource requests = {};
  Resource limits = {};

  static constexpr std::string_view kAlways[] = {"requests", "limits"};
};
BOOST_DESCRIBE_STRUCT(Resources, (), (requests, limits))

// A pod that holds a share of a GPU.
struct PodGPUInfo {
  JsonObject extra = {};
  std::string name = {};
  std::string namespace_ = {};
  std::string uid = {};
  Resource requests = {};
  Resource limits = {};
  std::string qos = {};  // low, medium, high, critical
  bool isExternal = false;
};
BOOST_DESCRIBE_STRUCT(PodGPUInfo, (), (name, namespace_, uid, requests, limits, qos, isExternal))

}  // namespace tf::api
