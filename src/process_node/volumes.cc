#include "process_node/volumes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "process_node/pod_spec.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;
using kube::Field;
using kube::Json;
using kube::Text;

const kube::JsonArray* Items(const Json& object, std::string_view path) {
  const Json* list = Field(object, path);
  return list != nullptr && list->is_array() ? &list->get_array() : nullptr;
}

// What the API server has checked, checked again: a path must stay in its volume.
bool StaysInside(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  for (const fs::path& part : fs::path(path)) {
    if (part == "..") return false;
  }
  return true;
}

absl::Status Put(Payload& payload, const std::string& path, std::string bytes, mode_t mode) {
  if (!StaysInside(path)) return absl::InvalidArgumentError(absl::StrCat("path \"", path, "\" leaves the volume"));
  payload[path] = PayloadFile{std::move(bytes), mode};
  return absl::OkStatus();
}

absl::Status AddObject(const Json& source, std::string_view kind, const std::string& name, mode_t mode,
                       const std::string& ns, const Lookup& lookup, Payload& payload) {
  const bool optional = kube::Flag(source, "optional");
  const kube::ObjectPtr object = lookup(kind, name);
  if (object == nullptr) {
    if (optional) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(kind == "Secret" ? "secret" : "configmap", " \"", name, "\" not found"));
  }
  const kube::JsonArray* items = Items(source, "items");
  if (items == nullptr) {
    for (auto& [key, value] : AllData(*object)) {
      if (absl::Status put = Put(payload, key, std::move(value), mode); !put.ok()) return put;
    }
    return absl::OkStatus();
  }
  for (const Json& item : *items) {
    const std::string key(Text(item, "key"));
    std::optional<std::string> value = DataOf(*object, key);
    if (!value) {
      if (optional) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "references non-existent ", kind == "Secret" ? "secret" : "config", " key: ", key, " (", ns, "/", name, ")"));
    }
    if (absl::Status put = Put(payload, std::string(Text(item, "path")), std::move(*value),
                               static_cast<mode_t>(kube::Number(item, "mode", mode)));
        !put.ok()) {
      return put;
    }
  }
  return absl::OkStatus();
}

absl::Status AddDownward(const Json& pod, const Json& source, mode_t mode, const std::string& pod_ip,
                         const NodeFacts& node, Payload& payload) {
  const kube::JsonArray* items = Items(source, "items");
  if (items == nullptr) return absl::OkStatus();
  for (const Json& item : *items) {
    std::string value;
    if (const Json* field = Field(item, "fieldRef")) {
      std::optional<std::string> found = PodField(pod, Text(*field, "fieldPath"), pod_ip, node);
      if (!found) {
        return absl::FailedPreconditionError(
            absl::StrCat("unsupported fieldPath: ", std::string(Text(*field, "fieldPath"))));
      }
      value = std::move(*found);
    } else if (const Json* resource = Field(item, "resourceFieldRef")) {
      const Json* container = ContainerOf(pod, Text(*resource, "containerName"));
      if (container == nullptr) return absl::FailedPreconditionError("resourceFieldRef names no container");
      value = ContainerResource(*container, Text(*resource, "resource"), Text(*resource, "divisor"), node);
    }
    if (absl::Status put = Put(payload, std::string(Text(item, "path")), std::move(value),
                               static_cast<mode_t>(kube::Number(item, "mode", mode)));
        !put.ok()) {
      return put;
    }
  }
  return absl::OkStatus();
}

TokenNeed ReadNeed(const Json& token) {
  return {std::string(Text(token, "audience")), kube::Number(token, "expirationSeconds", 3600)};
}

absl::Status WriteAll(const std::string& path, const PayloadFile& file) {
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  size_t at = 0;
  while (at < file.bytes.size()) {
    const ssize_t written = write(fd, file.bytes.data() + at, file.bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      close(fd);
      return absl::ErrnoToStatus(error, absl::StrCat("write ", path));
    }
    at += static_cast<size_t>(written);
  }
  // Files belong to whoever runs the node, which is whom the pod runs as: at least the owner must read.
  fchmod(fd, file.mode | S_IRUSR);
  close(fd);
  return absl::OkStatus();
}

bool Holds(const std::string& folder, const Payload& payload) {
  std::error_code failed;
  size_t files = 0;
  const std::string data = absl::StrCat(folder, "/..data");
  for (fs::recursive_directory_iterator at(data, failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->is_directory()) ++files;
  }
  if (failed || files != payload.size()) return false;
  for (const auto& [path, file] : payload) {
    const std::string whole = absl::StrCat(data, "/", path);
    struct stat about{};
    if (stat(whole.c_str(), &about) != 0 || (about.st_mode & 07777) != (file.mode | S_IRUSR)) return false;
    if (static_cast<size_t>(about.st_size) != file.bytes.size()) return false;
    absl::StatusOr<std::string> bytes = ReadFile(whole, file.bytes.size());
    if (!bytes.ok() || *bytes != file.bytes) return false;
  }
  return true;
}

}  // namespace

bool HasPayload(const Json& volume) {
  for (const char* kind : {"secret", "configMap", "downwardAPI", "projected"}) {
    if (Field(volume, kind) != nullptr) return true;
  }
  return false;
}

std::vector<TokenNeed> TokensOf(const Json& pod) {
  std::set<TokenNeed> needs;
  if (const kube::JsonArray* volumes = Items(pod, "spec.volumes")) {
    for (const Json& volume : *volumes) {
      const kube::JsonArray* sources = Items(volume, "projected.sources");
      if (sources == nullptr) continue;
      for (const Json& source : *sources) {
        if (const Json* token = Field(source, "serviceAccountToken")) needs.insert(ReadNeed(*token));
      }
    }
  }
  return {needs.begin(), needs.end()};
}

absl::StatusOr<Payload> PayloadOf(const Json& pod, const Json& volume, const std::string& pod_ip, const NodeFacts& node,
                                  const Lookup& lookup, const TokenLookup& tokens) {
  Payload payload;
  const std::string ns(kube::Namespace(pod));
  absl::Status added;
  const auto mode_of = [](const Json& source) {
    return static_cast<mode_t>(kube::Number(source, "defaultMode", 0644));
  };
  if (const Json* secret = Field(volume, "secret")) {
    added =
        AddObject(*secret, "Secret", std::string(Text(*secret, "secretName")), mode_of(*secret), ns, lookup, payload);
  } else if (const Json* config = Field(volume, "configMap")) {
    added = AddObject(*config, "ConfigMap", std::string(Text(*config, "name")), mode_of(*config), ns, lookup, payload);
  } else if (const Json* downward = Field(volume, "downwardAPI")) {
    added = AddDownward(pod, *downward, mode_of(*downward), pod_ip, node, payload);
  } else if (const Json* projected = Field(volume, "projected")) {
    const mode_t mode = mode_of(*projected);
    const kube::JsonArray* sources = Items(*projected, "sources");
    for (size_t i = 0; sources != nullptr && i < sources->size() && added.ok(); ++i) {
      const Json& source = (*sources)[i];
      if (const Json* secret = Field(source, "secret")) {
        added = AddObject(*secret, "Secret", std::string(Text(*secret, "name")), mode, ns, lookup, payload);
      } else if (const Json* config = Field(source, "configMap")) {
        added = AddObject(*config, "ConfigMap", std::string(Text(*config, "name")), mode, ns, lookup, payload);
      } else if (const Json* downward = Field(source, "downwardAPI")) {
        added = AddDownward(pod, *downward, mode, pod_ip, node, payload);
      } else if (const Json* token = Field(source, "serviceAccountToken")) {
        std::optional<std::string> text = tokens(ReadNeed(*token));
        if (!text) {
          added = absl::FailedPreconditionError("the service account token has not been issued yet");
        } else {
          added = Put(payload, std::string(Text(*token, "path")), std::move(*text), 0600);
        }
      } else {
        added = absl::UnimplementedError("process nodes have no projected source of this kind");
      }
    }
  }
  if (!added.ok()) return added;
  return payload;
}

absl::Status WritePayload(const std::string& folder, const Payload& payload) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return absl::InternalError(absl::StrCat("cannot make ", folder, ": ", failed.message()));
  if (Holds(folder, payload)) return absl::OkStatus();

  const std::string stamp = absl::FormatTime("..%Y_%m_%d_%H_%M_%S.", absl::Now(), absl::UTCTimeZone());
  std::string fresh = absl::StrCat(folder, "/", stamp, "XXXXXX");
  if (mkdtemp(fresh.data()) == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("mkdtemp in ", folder));
  chmod(fresh.c_str(), 0755);
  for (const auto& [path, file] : payload) {
    if (absl::Status written = WriteAll(absl::StrCat(fresh, "/", path), file); !written.ok()) {
      fs::remove_all(fresh, failed);
      return written;
    }
  }
  const std::string data = absl::StrCat(folder, "/..data"), next = absl::StrCat(folder, "/..data_tmp");
  const fs::path before = fs::read_symlink(data, failed);
  unlink(next.c_str());
  if (symlink(fs::path(fresh).filename().c_str(), next.c_str()) != 0 || rename(next.c_str(), data.c_str()) != 0) {
    const int error = errno;
    fs::remove_all(fresh, failed);
    return absl::ErrnoToStatus(error, absl::StrCat("swap ", data));
  }
  // Names that are new get their link, those that are gone lose it.
  std::set<std::string> names;
  for (const auto& [path, file] : payload) names.insert(fs::path(path).begin()->string());
  for (const std::string& name : names) {
    const std::string link = absl::StrCat(folder, "/", name);
    if (symlink(absl::StrCat("..data/", name).c_str(), link.c_str()) != 0 && errno != EEXIST) {
      return absl::ErrnoToStatus(errno, absl::StrCat("link ", link));
    }
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    if (entry.is_symlink() && !name.starts_with("..") && !names.contains(name)) unlink(entry.path().c_str());
    if (name.starts_with("..2") && entry.path() != fs::path(fresh) && !entry.is_symlink()) {
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FolderOf(const Json& volume, const std::string& own_folder) {
  std::error_code failed;
  if (Field(volume, "emptyDir") != nullptr) {
    fs::create_directories(own_folder, failed);
    chmod(own_folder.c_str(), 0777);
    return own_folder;
  }
  if (const Json* host = Field(volume, "hostPath")) {
    const std::string path(Text(*host, "path"));
    const std::string_view type = Text(*host, "type");
    if (type == "DirectoryOrCreate") fs::create_directories(path, failed);
    if (type == "FileOrCreate" && !fs::exists(path, failed)) {
      const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      if (fd >= 0) close(fd);
    }
    struct stat about{};
    if (stat(path.c_str(), &about) != 0) {
      return absl::FailedPreconditionError(absl::StrCat("hostPath type check failed: ", path, " does not exist"));
    }
    const bool fits = type.empty() || (type.starts_with("Directory") ? S_ISDIR(about.st_mode)
                                       : type.starts_with("File")    ? S_ISREG(about.st_mode)
                                       : type == "Socket"            ? S_ISSOCK(about.st_mode)
                                       : type == "CharDevice"        ? S_ISCHR(about.st_mode)
                                       : type == "BlockDevice"       ? S_ISBLK(about.st_mode)
                                                                     : false);
    if (!fits) {
      return absl::FailedPreconditionError(
          absl::StrCat("hostPath type check failed: ", path, " is not a ", std::string(type)));
    }
    return path;
  }
  return absl::UnimplementedError(absl::StrCat(
      "volume \"", std::string(Text(volume, "name")),
      "\": process nodes have emptyDir, hostPath, secret, configMap, downwardAPI and projected volumes only"));
}

absl::StatusOr<std::vector<Mount>> MountsOf(const Json& container, const Variables& env,
                                            const std::map<std::string, std::string>& volume_folders) {
  std::vector<Mount> mounts;
  const kube::JsonArray* list = Items(container, "volumeMounts");
  if (list == nullptr) return mounts;
  for (const Json& one : *list) {
    Mount mount;
    mount.volume = Text(one, "name");
    mount.target = Text(one, "mountPath");
    mount.read_only = kube::Flag(one, "readOnly");
    const auto folder = volume_folders.find(mount.volume);
    if (folder == volume_folders.end()) {
      return absl::FailedPreconditionError(absl::StrCat("there is no volume \"", mount.volume, "\""));
    }
    mount.source = folder->second;
    std::string sub(Text(one, "subPath"));
    if (const std::string_view expression = Text(one, "subPathExpr"); !expression.empty())
      sub = Expand(expression, env);
    if (!sub.empty()) {
      if (!StaysInside(sub)) return absl::InvalidArgumentError(absl::StrCat("subPath \"", sub, "\" leaves the volume"));
      mount.source = absl::StrCat(mount.source, "/", sub);
      std::error_code failed;
      if (!fs::exists(mount.source, failed)) fs::create_directories(mount.source, failed);
      if (failed)
        return absl::FailedPreconditionError(absl::StrCat("failed to create subPath folder: ", failed.message()));
      // A link that a container planted must not lead out of the volume.
      const std::string real = fs::canonical(mount.source, failed), top = fs::canonical(folder->second, failed);
      if (failed || (real != top && !real.starts_with(top + "/"))) {
        return absl::InvalidArgumentError(absl::StrCat("subPath \"", sub, "\" leaves the volume"));
      }
      mount.source = real;
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

}  // namespace tf::process_node
