// For tests: YAML files as JSON.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"

namespace tf::api::testing {

// The documents of a file below the source folder; throws what the reader throws.
std::vector<Json> YamlFile(const std::string& path);
// The files of a folder below the source folder that end in .yaml, sorted.
std::vector<std::string> YamlFilesIn(const std::string& folder);

// One document of testdata/.
struct Sample {
  std::string name;  // KIND NAME
  Json json;
};
std::vector<Sample> Samples();

// Through the struct of its kind and back; what FromJson says when it fails.
absl::StatusOr<Json> ThroughStruct(const Json& json);

}  // namespace tf::api::testing
