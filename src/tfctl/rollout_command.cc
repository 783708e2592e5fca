// tfctl rollout status | history | undo | pause | resume | restart
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/owners.h"
#include "tfctl/commands.h"
#include "tfctl/follow.h"
#include "tfctl/kube_access.h"
#include "tfctl/output.h"
#include "tfctl/pool_edit.h"
#include "tfctl/pool_view.h"

namespace tf::tfctl {
namespace {

using api::GPUPool;
using kube::Json;

// Of --watch; the rest is in commands.h.
constexpr int kTimeLimitOver = 3;
constexpr int kRolloutStopped = 4;

struct RolloutOptions {
  ClusterOptions cluster;
  std::string pool;
  std::string component;  // "": all
  std::string output = "table";
  std::string revisions_namespace = api::kSystemNamespace;
  int64_t revision = 0;  // 0: not given
  bool watch = false;
  std::string timeout;
};

int Fail(const absl::Status& status) {
  PrintError(std::string(status.message()));
  return 1;
}

// What was done: the result, unless a program reads the results.
void Say(const RolloutOptions& options, const std::string& line) {
  std::FILE* file = options.output == "table" ? stdout : stderr;
  std::fprintf(file, "%s\n", line.c_str());
  std::fflush(file);  // a watch may follow
}

std::vector<std::string> ComponentsOf(const RolloutOptions& options) {
  if (!options.component.empty()) return {options.component};
  return {std::begin(kComponents), std::end(kComponents)};
}

// ---- watching

// Text that is renewed in place.
class Screen {
 public:
  void Show(const std::string& text) {
    winsize size{};
    const size_t width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    if (lines_ > 0) std::printf("\033[%dF\033[J", lines_);
    lines_ = 0;
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      std::printf("%s\n", Clipped(line, width).c_str());
      ++lines_;
    }
    std::fflush(stdout);
  }

 private:
  // A line that wraps would be two.
  static std::string Clipped(const std::string& line, size_t width) {
    size_t characters = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if ((line[i] & 0xc0) != 0x80 && characters++ == width) return line.substr(0, i);
    }
    return line;
  }

  int lines_ = 0;
};

// What a watch must have seen before its answer counts.
struct Expected {
  int64_t generation = 0;
  std::string other_revision_than = {};  // of the component; "": any
};

bool IsSeen(const GPUPool& pool, const std::vector<std::string>& components, const Expected& expected) {
  if (pool.metadata.generation < expected.generation) return false;
  if (pool.status.observedGeneration < pool.metadata.generation) return false;
  return expected.other_revision_than.empty() ||
         ProgressOf(pool.status, components[0]).revision != expected.other_revision_than;
}

// Shows each change until all components are complete (0), or one has stopped and none goes on (4).
class Watch {
 public:
  Watch(const RolloutOptions& options, absl::Time end)
      : components_(ComponentsOf(options)), output_(options.output), terminal_(isatty(STDOUT_FILENO) != 0), end_(end) {}

  int Run(kube::Client& client, const std::string& name, const Expected& expected) {
    Follower follower(client, GPUPool::kResource, name);
    while (true) {
      const absl::Duration left = end_ - absl::Now();
      if (left <= absl::ZeroDuration()) {
        PrintError("--timeout is over; the rollout goes on");
        return kTimeLimitOver;
      }
      // Times on the screen go on between two changes.
      const Follower::Look look = follower.Next(terminal_ ? std::min(left, absl::Seconds(1)) : left);
      if (look.object == nullptr) continue;
      if (look.deleted) {
        PrintError(absl::StrCat("GPUPool ", name, " was deleted"));
        return 1;
      }
      const absl::StatusOr<GPUPool> pool = api::FromObject<GPUPool>(look.object);
      if (!pool.ok()) return Fail(pool.status());
      if (!IsSeen(*pool, components_, expected)) continue;
      Show(*look.object, *pool, look.changed);
      if (const std::optional<int> status = Over(*pool)) return *status;
    }
  }

 private:
  void Show(const Json& object, const GPUPool& pool, bool changed) {
    if (output_ == "json") {
      if (changed) std::printf("%s\n", boost::json::serialize(RolloutJson(object, components_)).c_str());
    } else if (output_ == "yaml") {
      if (changed) std::printf("---\n%s", Yaml(RolloutJson(object, components_)).c_str());
    } else if (terminal_) {
      screen_.Show(LiveText(pool, components_, absl::Now()));
    } else {
      std::vector<std::string> lines;
      for (const std::string& component : components_) lines.push_back(PlainLine(pool, component));
      shown_.resize(lines.size());
      for (size_t i = 0; i < lines.size(); ++i) {
        if (lines[i] != shown_[i]) std::printf("%s\n", lines[i].c_str());
      }
      shown_ = std::move(lines);
    }
    std::fflush(stdout);
  }

  std::optional<int> Over(const GPUPool& pool) const {
    std::string stopped;
    for (const std::string& component : components_) {
      switch (OutlookOf(pool, component)) {
        case Outlook::kComplete:
          break;
        case Outlook::kUnderWay:
          return std::nullopt;
        case Outlook::kStopped:
          absl::StrAppend(&stopped, stopped.empty() ? "" : "; ", WhyStopped(pool, component));
      }
    }
    if (stopped.empty()) return 0;
    PrintError(stopped);
    return kRolloutStopped;
  }

  const std::vector<std::string> components_;
  const std::string output_;
  const bool terminal_;
  const absl::Time end_;
  Screen screen_;
  std::vector<std::string> shown_;
};

absl::StatusOr<absl::Time> EndOf(const RolloutOptions& options) {
  if (options.timeout.empty()) return absl::InfiniteFuture();
  const absl::StatusOr<absl::Duration> limit = api::ParseDuration(options.timeout);
  if (!limit.ok())
    return absl::InvalidArgumentError(absl::StrCat("--timeout: ", std::string(limit.status().message())));
  return absl::Now() + *limit;
}

// Until the operator has looked at the TensorFusionCluster as it is now. False: the time is over.
absl::StatusOr<bool> AwaitClusterSeen(kube::Client& client, const Source& source, absl::Time end) {
  if (source.entry.empty()) return true;
  const absl::StatusOr<Json> now = client.Get(source.resource, {"", source.name});
  if (!now.ok()) return now.status();
  const int64_t generation = kube::Number(*now, "metadata.generation");
  if (kube::Number(*now, "status.observedGeneration") >= generation) return true;
  Follower follower(client, source.resource, source.name);
  while (absl::Now() < end) {
    const Follower::Look look = follower.Next(end - absl::Now());
    if (look.deleted) return absl::NotFoundError(absl::StrCat(source.ToString(), " was deleted"));
    if (look.object != nullptr && kube::Number(*look.object, "status.observedGeneration") >= generation) return true;
  }
  return false;
}

int WatchRollout(kube::Client& client, const RolloutOptions& options, const std::string& name, Expected expected) {
  const absl::StatusOr<absl::Time> end = EndOf(options);
  if (!end.ok()) return Fail(end.status());
  absl::StatusOr<Json> pool = GetPool(client, name);
  if (!pool.ok()) return Fail(pool.status());
  const absl::StatusOr<Source> source = SourceOf(*pool);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<bool> seen = AwaitClusterSeen(client, *source, *end);
  if (!seen.ok()) return Fail(seen.status());
  if (!*seen) {
    PrintError(absl::StrCat("--timeout is over; the operator has not looked at ", source->ToString(), " yet"));
    return kTimeLimitOver;
  }
  // The GPUPool is written before the cluster's status, so that it is the new one by now.
  pool = GetPool(client, name);
  if (!pool.ok()) return Fail(pool.status());
  expected.generation = kube::Number(*pool, "metadata.generation");
  return Watch(options, *end).Run(client, name, expected);
}

// ---- the commands

struct Access {
  std::unique_ptr<kube::Client> client;
  std::string name;
  Json pool;
};

absl::StatusOr<Access> Open(const RolloutOptions& options) {
  absl::StatusOr<std::string> name = PoolName(options.pool);
  if (!name.ok()) return name.status();
  absl::StatusOr<std::unique_ptr<kube::Client>> client = Connect(options.cluster);
  if (!client.ok()) return client.status();
  absl::StatusOr<Json> pool = GetPool(**client, *name);
  if (!pool.ok()) return pool.status();
  return Access{*std::move(client), *std::move(name), *std::move(pool)};
}

int Status(const RolloutOptions& options) {
  const absl::StatusOr<Access> access = Open(options);
  if (!access.ok()) return Fail(access.status());
  if (options.watch) return WatchRollout(*access->client, options, access->name, {});
  if (options.output != "table") {
    std::fputs(Formatted(RolloutJson(access->pool, ComponentsOf(options)), options.output).c_str(), stdout);
    return 0;
  }
  const absl::StatusOr<GPUPool> pool = api::FromObject<GPUPool>(access->pool);
  if (!pool.ok()) return Fail(pool.status());
  std::fputs(RolloutText(*pool, ComponentsOf(options), absl::Now()).c_str(), stdout);
  return 0;
}

absl::StatusOr<std::vector<Revision>> ReadRevisions(const Access& access, const RolloutOptions& options,
                                                    const std::string& component) {
  const absl::StatusOr<kube::ListPage> page =
      access.client->List(kube::core::kControllerRevision, options.revisions_namespace);
  if (!page.ok()) return page.status();
  return RevisionsOf(page->items, access.pool, component);
}

int History(const RolloutOptions& options) {
  const absl::StatusOr<Access> access = Open(options);
  if (!access.ok()) return Fail(access.status());
  boost::json::object all;
  std::string text;
  for (const std::string& component : ComponentsOf(options)) {
    absl::StatusOr<std::vector<Revision>> revisions = ReadRevisions(*access, options, component);
    if (!revisions.ok()) return Fail(revisions.status());
    if (options.revision != 0) {
      const absl::StatusOr<Revision> one = RevisionToUndoTo(*revisions, Json(), component, options.revision);
      if (!one.ok()) return Fail(one.status());
      revisions = std::vector<Revision>{*one};
    }
    all[component] = HistoryJson(*revisions);
    absl::StrAppend(&text, text.empty() ? "" : "\n", "pool/", access->name, " ", component, "\n",
                    HistoryTable(*revisions, access->pool, component, absl::Now()));
    if (options.revision != 0) absl::StrAppend(&text, "\n", Yaml((*revisions)[0].block));
  }
  std::fputs(options.output == "table" ? text.c_str() : Formatted(all, options.output).c_str(), stdout);
  return 0;
}

// Changes the pool's spec where people edit it. False: nothing was to be changed.
absl::StatusOr<bool> Edit(kube::Client& client, const Source& source, const std::function<bool(Json& spec)>& change) {
  bool changed = false;
  const absl::StatusOr<Json> written =
      kube::RetryOnConflict(client, source.resource, {"", source.name}, [&](Json& object) -> absl::StatusOr<bool> {
        const absl::StatusOr<Json*> spec = PoolSpecIn(object, source);
        if (!spec.ok()) return spec.status();
        return changed = change(**spec);
      });
  if (!written.ok()) return written.status();
  return changed;
}

// What keeps a change from reaching the nodes.
void PrintObstacles(const Json& object, const std::string& component) {
  const absl::StatusOr<GPUPool> pool = api::FromObject<GPUPool>(object);
  if (!pool.ok()) return;
  if (!AutoUpdate(pool->spec, component)) {
    std::fprintf(stderr, "Auto update of the %s is off: nothing restarts until the pool's policy turns it on.\n",
                 component.c_str());
  } else if (Paused(pool->spec)) {
    std::fprintf(stderr, "The pool is paused: nothing restarts until `tfctl rollout resume pool/%s`.\n",
                 pool->metadata.name.c_str());
  }
}

int Undo(const RolloutOptions& options) {
  const absl::StatusOr<Access> access = Open(options);
  if (!access.ok()) return Fail(access.status());
  const absl::StatusOr<Source> source = SourceOf(access->pool);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<std::vector<Revision>> revisions = ReadRevisions(*access, options, options.component);
  if (!revisions.ok()) return Fail(revisions.status());

  // Chosen again on a fresh object when somebody edits it at the same moment.
  const std::optional<int64_t> number = options.revision == 0 ? std::nullopt : std::optional(options.revision);
  absl::StatusOr<Revision> to = absl::UnknownError("");
  const absl::StatusOr<bool> changed = Edit(*access->client, *source, [&](Json& spec) {
    to = RevisionToUndoTo(*revisions, spec, options.component, number);
    return to.ok() && SetComponent(spec, options.component, to->block);
  });
  if (!changed.ok()) return Fail(changed.status());
  if (!to.ok()) return Fail(to.status());
  Say(options, absl::StrCat(source->ToString(), ": componentConfig.", options.component,
                            *changed ? " set back to" : " is that of", " revision ", to->number,
                            to->image.empty() ? "" : absl::StrCat(" (", to->image, ")")));
  PrintObstacles(access->pool, options.component);
  return options.watch ? WatchRollout(*access->client, options, access->name, {}) : 0;
}

int Pause(const RolloutOptions& options, bool paused) {
  const absl::StatusOr<Access> access = Open(options);
  if (!access.ok()) return Fail(access.status());
  const absl::StatusOr<Source> source = SourceOf(access->pool);
  if (!source.ok()) return Fail(source.status());
  const absl::StatusOr<bool> changed =
      Edit(*access->client, *source, [&](Json& spec) { return SetPaused(spec, paused); });
  if (!changed.ok()) return Fail(changed.status());
  const char* what = paused ? "paused: an open batch ends, no further one begins" : "resumed";
  Say(options, absl::StrCat(source->ToString(), ": all components ", what, *changed ? "" : " (it was so already)"));
  return options.watch ? WatchRollout(*access->client, options, access->name, {}) : 0;
}

int Restart(const RolloutOptions& options) {
  const absl::StatusOr<Access> access = Open(options);
  if (!access.ok()) return Fail(access.status());
  const std::string annotation = absl::StrCat(api::kRestartAnnotationPrefix, options.component);
  const std::string now = api::Time(absl::Now()).Text();
  const Json patch = {{"metadata", {{"annotations", {{annotation, now}}}}}};
  const absl::StatusOr<Json> patched = access->client->Patch(GPUPool::kResource, {"", access->name}, patch);
  if (!patched.ok()) return Fail(patched.status());
  Say(options, absl::StrCat("GPUPool ", access->name, ": restart of the ", options.component, " asked for at ", now));
  PrintObstacles(*patched, options.component);
  if (!options.watch) return 0;
  const std::string before(kube::Text(access->pool, absl::StrCat("status.componentStatus.", options.component)));
  return WatchRollout(*access->client, options, access->name, {.other_revision_than = before});
}

// ---- the options

enum class Component { kOptional, kRequired };

CLI::App* AddOne(CLI::App& group, const std::string& name, const std::string& description, Component component,
                 const std::shared_ptr<RolloutOptions>& options) {
  CLI::App* command = group.add_subcommand(name, description);
  command->add_option("pool", options->pool, "pool/NAME, such as pool/tensor-fusion-shared")
      ->required()
      ->type_name("POOL");
  CLI::Option* which =
      command->add_option("--component", options->component,
                          component == Component::kRequired ? "Of this component" : "Of this component (default: all)");
  which->check(CLI::IsMember({"hypervisor", "worker", "client"}));
  if (component == Component::kRequired) which->required();
  command->add_option("-o,--output", options->output, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
  AddClusterOptions(*command, options->cluster);
  return command;
}

void AddWatch(CLI::App& command, RolloutOptions& options) {
  command.add_flag("-w,--watch", options.watch,
                   "Show each change until it is complete (json and yaml: a document for each change)");
  command.add_option("--timeout", options.timeout, "With --watch: at most so long, such as 10m (default: no limit)");
}

void AddRevisionsNamespace(CLI::App& command, RolloutOptions& options) {
  command.add_option("-n,--namespace", options.revisions_namespace, "The operator's namespace, where the history is")
      ->capture_default_str();
}

}  // namespace

void AddRolloutCommand(CLI::App& app, int& exit_status) {
  CLI::App* group =
      app.add_subcommand("rollout", "How changes of hypervisor, worker and client reach the nodes of a pool");
  group->require_subcommand(1);
  group->footer(
      "Exit status: 0 done, 1 failed, 2 wrong usage; with --watch also 3 when --timeout is over and 4 when the\n"
      "rollout has stopped and somebody must change something first.");
  const auto add = [&](const std::string& name, const std::string& description, Component component,
                       int (*run)(const RolloutOptions&)) {
    auto options = std::make_shared<RolloutOptions>();
    CLI::App* command = AddOne(*group, name, description, component, options);
    command->callback([options, run, &exit_status] { exit_status = run(*options); });
    return std::pair(command, options);
  };
  {
    auto [command, options] = add("status", "How far it is, and why", Component::kOptional, &Status);
    AddWatch(*command, *options);
  }
  {
    auto [command, options] = add("history", "The configurations that a component had", Component::kOptional, &History);
    command->add_option("--revision", options->revision, "Show this one in full")->check(CLI::PositiveNumber);
    AddRevisionsNamespace(*command, *options);
  }
  {
    auto [command, options] =
        add("undo", "Set a component's configuration back, in the TensorFusionCluster", Component::kRequired, &Undo);
    command->add_option("--to-revision", options->revision, "To this one of the history (default: the one before)")
        ->check(CLI::PositiveNumber);
    AddRevisionsNamespace(*command, *options);
    AddWatch(*command, *options);
  }
  add("pause", "No further batch begins, of any component of the pool", Component::kOptional,
      [](const RolloutOptions& given) { return Pause(given, true); });
  {
    auto [command, options] = add("resume", "Batches begin again", Component::kOptional,
                                  [](const RolloutOptions& given) { return Pause(given, false); });
    AddWatch(*command, *options);
  }
  {
    auto [command, options] =
        add("restart", "Restart a component on all nodes, in batches", Component::kRequired, &Restart);
    AddWatch(*command, *options);
  }
}

}  // namespace tf::tfctl
