// Which folder of this machine stands for a container image, and which program a container starts.
//
// A rule is NAME=FOLDER. It holds for an image that is NAME, with or without tag and digest, and with any registry or
// path before it: the rule tensorfusion/tensor-fusion-worker holds for
// registry.example.com/tensorfusion/tensor-fusion-worker:1.2. The longest name that fits decides. NAME `*` holds for
// every image that has no other rule. FOLDER `/` means the machine itself: its own programs, for busybox and the like.
// Immutable after Add; pure but for the look at the folder in FindProgram.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tf::process_node {

class ImageTable {
 public:
  // "NAME=FOLDER"; FOLDER relative to the current folder or absolute. InvalidArgument, NotFound (no such folder).
  absl::Status Add(std::string_view rule);
  std::optional<std::string> Find(std::string_view image) const;

 private:
  std::vector<std::pair<std::string, std::string>> rules_;
};

// "registry:5000/a/b:tag@sha256:…" -> "registry:5000/a/b".
std::string_view WithoutTag(std::string_view image);

// The file that `command` (argv[0]; "": the image's own) means in a container of `image`: FOLDER/command,
// FOLDER/its last part, then, for a bare name, the folders of `path`, else `command` itself. NotFound in the words that
// container runtimes use.
absl::StatusOr<std::string> FindProgram(const std::string& folder, std::string_view image, const std::string& command,
                                        const std::string& path, const std::string& working_folder);

}  // namespace tf::process_node
