#include "process_node/image_table.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf::process_node {
namespace {

bool IsProgram(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string_view LastPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string_view WithoutTag(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const size_t colon = image.rfind(':');
  // A colon before the last slash belongs to a port.
  if (colon != std::string_view::npos && image.find('/', colon) == std::string_view::npos)
    image = image.substr(0, colon);
  return image;
}

absl::Status ImageTable::Add(std::string_view rule) {
  const size_t equals = rule.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == rule.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(rule), "\" is no rule for an image; write NAME=FOLDER"));
  }
  const std::string name(rule.substr(0, equals));
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::canonical(rule.substr(equals + 1), failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    return absl::NotFoundError(
        absl::StrCat("image ", name, ": there is no folder ", std::string(rule.substr(equals + 1))));
  }
  rules_.emplace_back(name, folder.string());
  return absl::OkStatus();
}

std::optional<std::string> ImageTable::Find(std::string_view image) const {
  const std::pair<std::string, std::string>* best = nullptr;
  const std::string_view bare = WithoutTag(image);
  for (const auto& rule : rules_) {
    const std::string_view name = rule.first;
    bool fits = name == "*" || name == image || name == bare;
    for (const std::string_view whole : {image, bare}) {
      fits =
          fits || (whole.size() > name.size() && whole.ends_with(name) && whole[whole.size() - name.size() - 1] == '/');
    }
    if (!fits) continue;
    const auto weight = [](const std::string& of) { return of == "*" ? 0 : of.size(); };
    if (best == nullptr || weight(rule.first) > weight(best->first)) best = &rule;
  }
  if (best == nullptr) return std::nullopt;
  return best->second;
}

absl::StatusOr<std::string> FindProgram(const std::string& folder, std::string_view image, const std::string& command,
                                        const std::string& path, const std::string& working_folder) {
  const std::string wanted = command.empty() ? std::string(LastPart(WithoutTag(image))) : command;
  if (folder != "/") {
    for (const std::string& candidate :
         {absl::StrCat(folder, "/", wanted), absl::StrCat(folder, "/", std::string(LastPart(wanted)))}) {
      if (IsProgram(candidate)) return candidate;
    }
  }
  if (command.empty()) {
    return absl::NotFoundError(absl::StrCat("no command specified, and ", folder, " has no program ", wanted));
  }
  if (wanted.find('/') != std::string::npos) {
    std::string file = wanted.front() == '/' ? wanted : absl::StrCat(working_folder, "/", wanted);
    if (IsProgram(file)) return file;
    struct stat about{};
    if (stat(file.c_str(), &about) == 0)
      return absl::NotFoundError(absl::StrCat("exec: \"", wanted, "\": permission denied"));
    return absl::NotFoundError(absl::StrCat("exec: \"", wanted, "\": stat ", wanted, ": no such file or directory"));
  }
  for (absl::string_view part : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string candidate = absl::StrCat(part, "/", wanted);
    if (IsProgram(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("exec: \"", wanted, "\": executable file not found in $PATH"));
}

}  // namespace tf::process_node
