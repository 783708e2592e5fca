// What results look like on standard output: columns for people, JSON and YAML for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::tfctl {

// Columns as wide as their widest cell, two blanks between them; every row has as many cells as the first. An empty
// cell is "-". Lines end with a newline.
std::string Columns(const std::vector<std::vector<std::string>>& rows);

// Indented by two, with a newline at the end.
std::string PrettyJson(const kube::Json& value);

// Block style; strings that could be read as something else are quoted as in JSON.
std::string Yaml(const kube::Json& value);

// `format`: "json" or "yaml".
std::string Formatted(const kube::Json& value, const std::string& format);

// Roughly, in at most two units, as kubectl writes ages: "45s", "3m20s", "5h", "12d". Negative ones are 0s.
std::string ShortDuration(absl::Duration duration);

}  // namespace tf::tfctl
