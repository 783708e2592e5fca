#include "operator/pod_request.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "api/names.h"
#include "placement/request.h"

namespace tf::operators {
namespace {

constexpr char kPrefix[] = "tensor-fusion.ai/";
constexpr int64_t kFullCompute = 100;

// Reads one pod's annotations and collects what is wrong with them.
class Reader {
 public:
  explicit Reader(const api::Pod& pod) : pod_(pod) {}

  // Without blanks around it; "" where it is not there.
  std::string Value(std::string_view name) const {
    const auto found = pod_.metadata.annotations.find(absl::StrCat(kPrefix, std::string(name)));
    if (found == pod_.metadata.annotations.end()) return "";
    return std::string(absl::StripAsciiWhitespace(found->second));
  }

  void Refuse(std::string_view name, std::string_view value, std::string_view allowed) {
    errors_.push_back(absl::StrCat("annotation ", kPrefix, std::string(name), ": \"", std::string(value),
                                   "\" is not allowed; allowed: ", std::string(allowed)));
  }
  void Refuse(std::string message) { errors_.push_back(std::move(message)); }

  std::string OneOf(std::string_view name, const std::vector<std::string>& allowed) {
    std::string value = Value(name);
    if (value.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
    Refuse(name, value, absl::StrJoin(allowed, ", "));
    return "";
  }

  std::optional<bool> Flag(std::string_view name) {
    const std::string value = OneOf(name, {"true", "false"});
    if (value.empty()) return std::nullopt;
    return value == "true";
  }

  std::optional<int64_t> Whole(std::string_view name, int64_t least, int64_t most) {
    const std::string value = Value(name);
    if (value.empty()) return std::nullopt;
    int64_t number = 0;
    if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) return number;
    Refuse(name, value, absl::StrCat("a whole number from ", least, " to ", most));
    return std::nullopt;
  }

  std::vector<std::string> List(std::string_view name) const {
    std::vector<std::string> values;
    for (const auto part : absl::StrSplit(Value(name), ',')) {
      const auto stripped = absl::StripAsciiWhitespace(part);
      if (!stripped.empty()) values.emplace_back(stripped.data(), stripped.size());
    }
    return values;
  }

  // What is positive; "0" is as good as nothing.
  std::optional<api::Quantity> Amount(std::string_view name, std::string_view allowed) {
    const std::string value = Value(name);
    if (value.empty()) return std::nullopt;
    const absl::StatusOr<api::Quantity> amount = api::Quantity::Parse(value);
    if (amount.ok() && !amount->IsNegative()) return *amount;
    Refuse(name, value, allowed);
    return std::nullopt;
  }

  // Of something that is not there yet: only `off` values pass.
  void NotYet(std::string_view name, std::string_view what, const std::vector<std::string>& off = {}) {
    const std::string value = Value(name);
    if (value.empty() || std::find(off.begin(), off.end(), value) != off.end()) return;
    errors_.push_back(absl::StrCat(
        "annotation ", kPrefix, std::string(name), ": \"", value, "\" asks for ", std::string(what),
        ", which is not supported yet; allowed: ", off.empty() ? "no such annotation" : absl::StrJoin(off, ", ")));
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  const api::Pod& pod_;
  std::vector<std::string> errors_;
};

// One kind of amount: annotations NAME-request and NAME-limit over what the profile says.
void ReadAmount(Reader& reader, const std::string& name, std::string_view allowed, api::Quantity& request,
                api::Quantity& limit) {
  const std::optional<api::Quantity> asked = reader.Amount(name + "-request", allowed);
  const std::optional<api::Quantity> most = reader.Amount(name + "-limit", allowed);
  // One annotation replaces both values of the profile: half of each would be nobody's wish.
  if (asked || most) {
    request = asked ? *asked : api::Quantity();
    limit = most ? *most : api::Quantity();
  }
  if (request.IsZero()) request = limit;
  if (limit.IsZero()) limit = request;
  if (limit < request) {
    reader.Refuse(absl::StrCat("annotation ", kPrefix, name, "-request: \"", request.Text(),
                               "\" is not allowed; allowed: at most ", kPrefix, name, "-limit, which is \"",
                               limit.Text(), "\""));
  }
}

void CheckPercent(Reader& reader, const char* name, const api::Quantity& amount) {
  if (amount > api::Quantity(kFullCompute)) reader.Refuse(name, amount.Text(), "a percentage from 1 to 100 of one GPU");
}

void ReadResources(Reader& reader, api::WorkloadProfileSpec& spec) {
  api::Resources resources = spec.resources.value_or(api::Resources());
  const bool tflops_said = !reader.Value("tflops-request").empty() || !reader.Value("tflops-limit").empty();
  const bool percent_said =
      !reader.Value("compute-percent-request").empty() || !reader.Value("compute-percent-limit").empty();
  if (tflops_said && percent_said) {
    reader.Refuse(absl::StrCat("annotations ", kPrefix, "tflops-request/-limit and ", kPrefix,
                               "compute-percent-request/-limit are both there; allowed: one of the two"));
  }
  if (tflops_said) resources.requests.compute = resources.limits.compute = api::Quantity();
  if (percent_said) resources.requests.tflops = resources.limits.tflops = api::Quantity();
  ReadAmount(reader, "tflops", "an amount of TFLOPS for each GPU, such as 10 or 500m", resources.requests.tflops,
             resources.limits.tflops);
  ReadAmount(reader, "compute-percent", "a percentage from 1 to 100 of one GPU", resources.requests.compute,
             resources.limits.compute);
  ReadAmount(reader, "vram", "an amount of memory for each GPU, such as 10Gi", resources.requests.vram,
             resources.limits.vram);
  CheckPercent(reader, "compute-percent-request", resources.requests.compute);
  CheckPercent(reader, "compute-percent-limit", resources.limits.compute);
  const bool nothing =
      resources.limits.tflops.IsZero() && resources.limits.compute.IsZero() && resources.limits.vram.IsZero();
  if (nothing) {
    spec.resources.reset();
  } else {
    spec.resources = std::move(resources);
  }
}

// Those that are named; without names the only one there is.
std::vector<std::string> ReadContainers(Reader& reader, const api::Pod& pod) {
  std::vector<std::string> known;
  for (const api::Container& container : pod.spec.containers) {
    if (container.name != api::kWorkerContainer) known.push_back(container.name);  // ours, on a second look
  }
  std::vector<std::string> named = reader.List("inject-container");
  if (named.empty()) {
    if (known.size() > 1) {
      reader.Refuse(absl::StrCat("annotation ", api::kContainersAnnotation, " is missing, and the pod has ",
                                 known.size(), " containers; allowed: one or more of ", absl::StrJoin(known, ", ")));
    }
    return known;
  }
  std::vector<std::string> containers;
  for (std::string& name : named) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      reader.Refuse("inject-container", name,
                    absl::StrCat("names of containers of the pod: ", absl::StrJoin(known, ", ")));
    } else if (std::find(containers.begin(), containers.end(), name) == containers.end()) {
      containers.push_back(std::move(name));
    }
  }
  return containers;
}

// GPUs of other device plugins that the containers ask for.
int64_t NativeGpus(const PodRequestInput& input, const std::vector<std::string>& containers) {
  int64_t count = 0;
  for (const api::Container& container : input.pod.spec.containers) {
    if (std::find(containers.begin(), containers.end(), container.name) == containers.end()) continue;
    for (const std::string& resource : input.native_resources) {
      const auto found = container.resources.limits.find(resource);
      if (found != container.resources.limits.end()) count += found->second.Units();
    }
  }
  return count;
}

void ReadCards(Reader& reader, const PodRequestInput& input, const std::vector<std::string>& containers,
               api::WorkloadProfileSpec& spec) {
  const std::optional<int64_t> count = reader.Whole("gpu-count", 1, placement::kMostCards);
  const std::vector<std::string> indices = reader.List("gpu-indices");
  if (!indices.empty()) {
    std::set<int32_t> seen;
    spec.gpuIndices.clear();
    for (const std::string& text : indices) {
      int32_t index = 0;
      if (!absl::SimpleAtoi(text, &index) || index < 0 || index >= placement::kMostCards ||
          !seen.insert(index).second) {
        reader.Refuse("gpu-indices", reader.Value("gpu-indices"),
                      "different whole numbers from 0 to 127, with commas between them");
        return;
      }
      spec.gpuIndices.push_back(index);
    }
    if (count && *count != static_cast<int64_t>(indices.size())) {
      reader.Refuse("gpu-count", absl::StrCat(*count),
                    absl::StrCat(indices.size(), ", as many as ", kPrefix, "gpu-indices has"));
    }
    spec.gpuCount = static_cast<uint32_t>(indices.size());
  } else if (count) {
    spec.gpuCount = static_cast<uint32_t>(*count);
  } else if (!spec.gpuCount && !spec.gpuIndices.empty()) {
    spec.gpuCount = static_cast<uint32_t>(spec.gpuIndices.size());
  } else if (!spec.gpuCount) {
    if (const int64_t native = NativeGpus(input, containers); native > 0) {
      if (native > placement::kMostCards) {
        reader.Refuse(absl::StrCat("the containers ask for ", native, " GPUs by ",
                                   absl::StrJoin(input.native_resources, ", "), "; allowed: at most ",
                                   placement::kMostCards));
      }
      spec.gpuCount = static_cast<uint32_t>(native);
      // Whole cards, as they would have been.
      if (!spec.resources && spec.isolation != "shared") {
        api::Resources whole;
        whole.requests.compute = whole.limits.compute = api::Quantity(kFullCompute);
        spec.resources = std::move(whole);
      }
    }
  }
  if (!spec.gpuCount) spec.gpuCount = 1;
  if (std::string model = reader.Value("gpu-model"); !model.empty()) spec.gpuModel = std::move(model);
  if (std::string vendor = reader.Value("vendor"); !vendor.empty()) spec.vendor = std::move(vendor);
}

// What annotations of upstream ask for that there is not: refused by name.
void RefuseUnsupported(Reader& reader, const PodRequestInput& input) {
  reader.NotYet("partition-id", "a partitioned GPU");
  reader.NotYet("autoscale", "autoscaling", {"false"});
  reader.NotYet("gang-enabled", "gang scheduling", {"false"});
  reader.NotYet("gang-min-members", "gang scheduling");
  reader.NotYet("enabled-replicas", "vGPUs for some of the replicas only");
  reader.NotYet("dedicated-gpu", "a dedicated GPU", {"false"});
  reader.NotYet("disable-features", "features to be left out");
  reader.NotYet("worker-pod-template", "a worker pod template (spec.workerPodTemplate of a WorkloadProfile has one)");
  if (const std::string_view port = input.pod.metadata.Label("tensor-fusion.ai/host-port"); !port.empty()) {
    reader.Refuse(absl::StrCat("label ", kPrefix, "host-port: \"", std::string(port),
                               "\" asks for a port of the host, which is not supported yet; allowed: no such label"));
  }
  if (input.profile == nullptr) return;
  const api::WorkloadProfileSpec& spec = input.profile->spec;
  const std::string place = absl::StrCat("WorkloadProfile \"", input.profile->metadata.name, "\": spec.");
  const auto refuse = [&](bool there, const char* field, const char* what) {
    if (there) reader.Refuse(absl::StrCat(place, field, " asks for ", what, ", which is not supported yet"));
  };
  refuse(spec.gangScheduling.has_value() && spec.gangScheduling->minMembers > 0, "gangScheduling", "gang scheduling");
  refuse(spec.autoScalingConfig.has_value(), "autoScalingConfig", "autoscaling");
  refuse(!spec.partitionTemplateId.empty(), "partitionTemplateId", "a partitioned GPU");
}

// Where the vGPU is and how it is kept apart.
void ReadMode(Reader& reader, const PodRequestInput& input, PodRequest& request) {
  const bool pool_local = input.pool.spec.defaultUsingLocalGPU.value_or(true);
  const bool local = reader.Flag("is-local-gpu").value_or(pool_local);
  const bool sidecar = reader.Flag("sidecar-worker").value_or(false);
  std::string isolation = reader.Value("isolation");
  if (isolation == "soft" || isolation == "partitioned") {
    reader.Refuse(
        absl::StrCat("annotation ", kPrefix, "isolation: \"", isolation, "\" is not supported yet; allowed: hard"));
  } else if (!isolation.empty() && isolation != "hard" && isolation != "shared") {
    reader.Refuse("isolation", isolation, "hard");
  }
  // Without a word: limits that hold. A profile's isolation has no effect, as upstream; its default is "soft".
  if (isolation.empty()) isolation = "hard";
  if (sidecar && isolation == "shared") {
    reader.Refuse("sidecar-worker", "true",
                  absl::StrCat("false, where ", kPrefix, "isolation is shared: there is no worker"));
  }
  const bool is_local = local || sidecar;
  request.mode = !is_local ? VgpuMode::kRemote : isolation == "shared" ? VgpuMode::kLocalShared : VgpuMode::kLocalHard;
  request.spec.isLocalGPU = is_local;
  request.spec.sidecarWorker = request.mode == VgpuMode::kLocalHard;
  request.spec.isolation = isolation;
  if (is_local && !request.spec.workerPodTemplate.empty()) {
    reader.Refuse(absl::StrCat("annotation ", api::kProfileAnnotation, ": \"", input.profile->metadata.name,
                               "\" has spec.workerPodTemplate, which is for remote mode only; allowed: a profile "
                               "without it, or ",
                               kPrefix, "is-local-gpu: \"false\""));
  }
}

}  // namespace

bool WantsVgpu(const api::Pod& pod) { return pod.metadata.Label(api::kEnabledLabel) == "true"; }

absl::StatusOr<PodRequest> ReadPodRequest(const PodRequestInput& input) {
  Reader reader(input.pod);
  PodRequest request;
  if (input.profile != nullptr) request.spec = input.profile->spec;
  request.spec.poolName = input.pool.metadata.name;
  RefuseUnsupported(reader, input);
  ReadMode(reader, input, request);
  request.containers = ReadContainers(reader, input.pod);
  ReadResources(reader, request.spec);
  ReadCards(reader, input, request.containers, request.spec);
  if (std::string qos = reader.OneOf("qos", {"low", "medium", "high", "critical"}); !qos.empty()) {
    request.spec.qos = std::move(qos);
  }
  if (!request.spec.resources && request.spec.isolation != "shared" && reader.errors().empty()) {
    reader.Refuse(absl::StrCat("the pod asks for no share of a GPU; allowed: ", kPrefix, "tflops-limit or ", kPrefix,
                               "compute-percent-limit, and ", kPrefix, "vram-limit, or ", kPrefix,
                               "isolation: \"shared\" for a whole card"));
  }
  if (!reader.errors().empty()) return absl::InvalidArgumentError(absl::StrJoin(reader.errors(), "; "));
  return request;
}

std::string WorkloadNameOf(const api::Pod& pod, const std::string& own_name) {
  const api::OwnerReference* controller = pod.metadata.Controller();
  if (controller == nullptr) return own_name;
  // A ReplicaSet bears its Deployment's name and the hash that its pods have as a label.
  if (const std::string hash(pod.metadata.Label("pod-template-hash"));
      controller->kind == "ReplicaSet" && !hash.empty()) {
    const std::string suffix = "-" + hash;
    if (controller->name.size() > suffix.size() && controller->name.ends_with(suffix)) {
      return controller->name.substr(0, controller->name.size() - suffix.size());
    }
  }
  return controller->name;
}

}  // namespace tf::operators
