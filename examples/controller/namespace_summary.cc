// Keeps a ConfigMap "NAMESPACE-summary" in each namespace: how many pods there are, and how many in each phase.
// The tutorial in docs/controller.md goes through it line by line.
#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "kube/manager.h"
#include "kube/manager_flags.h"

namespace kube = tf::kube;

namespace {

constexpr char kName[] = "namespace-summary";
constexpr char kManagedBy[] = "app.kubernetes.io/managed-by";

std::vector<kube::Key> ItsNamespace(const kube::Json& object) { return {{"", std::string(kube::Namespace(object))}}; }

bool PhaseChanged(const kube::ChangeView& change) {
  return change.before == nullptr ||
         kube::Text(*change.before, "status.phase") != kube::Text(change.object, "status.phase");
}

// {"pods": "3", "Running": "2", "Pending": "1"}
kube::Json Count(const std::vector<kube::ObjectPtr>& pods) {
  std::map<std::string, int> phases;
  for (const kube::ObjectPtr& pod : pods) ++phases[std::string(kube::Text(*pod, "status.phase"))];
  kube::JsonObject data{{"pods", absl::StrCat(pods.size())}};
  for (const auto& [phase, count] : phases) data[phase.empty() ? "Unknown" : phase] = absl::StrCat(count);
  return data;
}

class Summary {
 public:
  explicit Summary(kube::Manager& manager)
      : manager_(manager),
        namespaces_(manager.Cache(kube::core::kNamespace)),
        pods_(manager.Cache(kube::core::kPod, {.keep = {"status.phase"},
                                               .indexes = {{"namespace",
                                                            [](const kube::Json& pod) {
                                                              return std::vector<std::string>{
                                                                  std::string(kube::Namespace(pod))};
                                                            }}}})),
        summaries_(manager.Cache(kube::core::kConfigMap, {.label_selector = absl::StrCat(kManagedBy, "=", kName)})) {
    kube::Controller& controller = manager.AddController(
        {.name = "summary", .workers = 2, .reconcile = [this](const kube::Key& key) { return Reconcile(key.name); }});
    controller.Watch(namespaces_);
    controller.Watch(pods_, ItsNamespace, PhaseChanged);
    controller.Watch(summaries_, ItsNamespace);  // somebody may change or delete what we wrote
  }

 private:
  absl::StatusOr<kube::Result> Reconcile(const std::string& name) {
    const kube::ObjectPtr ns = namespaces_.Get({"", name});
    if (ns == nullptr || kube::IsBeingDeleted(*ns)) return kube::Result{};
    const kube::Key key{name, absl::StrCat(name, "-summary")};
    const kube::Json data = Count(pods_.ByIndex("namespace", name));
    const kube::ObjectPtr known = summaries_.Get(key);
    if (known != nullptr && kube::Field(*known, "data") != nullptr && *kube::Field(*known, "data") == data) {
      return kube::Result{};
    }
    const kube::Json summary =
        kube::JsonObject{{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata", {{"namespace", key.ns}, {"name", key.name}, {"labels", {{kManagedBy, kName}}}}},
                         {"data", data}};
    // Server-side apply makes it or changes it, whichever is needed, and takes away phases that are no more.
    kube::PatchOptions apply;
    apply.type = kube::PatchType::kApply;
    apply.field_manager = kName;
    apply.force = true;
    const auto written = manager_.client().Patch(kube::core::kConfigMap, key, summary, apply);
    if (!written.ok()) return written.status();  // tried again, later each time
    manager_.events().Normal(*ns, "Summarised", "Summarise", "the summary of the namespace's pods was renewed");
    return kube::Result{};
  }

  kube::Manager& manager_;
  kube::Informer& namespaces_;
  kube::Informer& pods_;
  kube::Informer& summaries_;
};

}  // namespace

int main(int argc, char** argv) {
  tf::InitLog(kName);
  kube::ManagerOptions options{.name = kName, .leader_elect = true};
  if (const auto code = kube::ParseManagerFlags(argc, argv, options)) return *code;
  const auto manager = kube::Manager::Make(options);
  if (!manager.ok()) return std::fprintf(stderr, "%s\n", manager.status().ToString().c_str()), 1;
  const Summary summary(**manager);
  return (*manager)->Run();
}
