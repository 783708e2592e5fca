#include "operator/pod_webhook.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/names.h"
#include "api/provider_config.h"
#include "api/typed.h"
#include "api/workload.h"
#include "operator/pod_injection.h"
#include "operator/pod_request.h"
#include "operator/providers.h"

namespace tf::operators {
namespace {

constexpr char kPath[] = "/mutate-v1-pod";
constexpr int kIdLength = 10;
constexpr int kMistake = 422;
constexpr int kNotNow = 503;
// The API server waits 5 s.
constexpr absl::Duration kPatience = absl::Seconds(3);

// Letters and digits that are not taken for one another, from what is different for each request.
std::string IdOf(const std::string& request) {
  static constexpr std::string_view kAlphabet = "123456789abcdefghijkmnopqrstuvwxy";
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(request.data()), request.size(), hash);
  std::string id;
  for (int i = 0; i < kIdLength; ++i) id += kAlphabet[hash[i] % kAlphabet.size()];
  return id;
}

kube::AdmissionResponse Refuse(int code, std::string message) {
  kube::AdmissionResponse refusal = kube::Deny(std::move(message));
  refusal.code = code;
  return refusal;
}

kube::AdmissionResponse Refuse(const absl::Status& status) {
  const bool unavailable = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return Refuse(unavailable ? kNotNow : kMistake, std::string(status.message()));
}

std::string Annotation(const api::Pod& pod, const std::string& name) {
  return std::string(absl::StripAsciiWhitespace(std::string(pod.metadata.Annotation(name))));
}

absl::StatusOr<std::optional<api::WorkloadProfile>> FindProfile(const api::Pod& pod, const PodSurroundings& around) {
  const std::string name = Annotation(pod, api::kProfileAnnotation);
  if (name.empty()) return std::optional<api::WorkloadProfile>();
  const kube::ObjectPtr object = around.profile({pod.metadata.namespace_, name});
  if (object == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("annotation ", api::kProfileAnnotation, ": \"", name,
                                                   "\" is not allowed; allowed: the name of a WorkloadProfile in "
                                                   "namespace ",
                                                   pod.metadata.namespace_));
  }
  absl::StatusOr<api::WorkloadProfile> profile = api::FromObject<api::WorkloadProfile>(object);
  if (!profile.ok()) return profile.status();
  return std::optional<api::WorkloadProfile>(*std::move(profile));
}

absl::StatusOr<api::Pod> Admit(const kube::AdmissionRequest& request, const api::Pod& pod,
                               const PodSurroundings& around) {
  const absl::StatusOr<api::GPUPool> pool = FindPool(around.pools(), Annotation(pod, api::kPoolAnnotation));
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<std::optional<api::WorkloadProfile>> profile = FindProfile(pod, around);
  if (!profile.ok()) return profile.status();
  const std::vector<std::string> native = around.native_resources();
  const absl::StatusOr<PodRequest> wanted = ReadPodRequest(
      {.pod = pod, .pool = *pool, .profile = profile->has_value() ? &**profile : nullptr, .native_resources = native});
  if (!wanted.ok()) return wanted.status();
  const absl::StatusOr<PodRevision> client = around.client(*pool, pod.metadata.namespace_);
  if (!client.ok()) return client.status();
  const std::string connection = ConnectionNameOf(pod, IdOf(request.uid));
  return Inject({.pod = pod,
                 .request = *wanted,
                 .client = *client,
                 .workload = WorkloadNameOf(pod, pod.metadata.name.empty() ? connection : pod.metadata.name),
                 .connection = connection,
                 .endpoint = around.endpoint,
                 .native_resources = native,
                 .choose_cards = around.choose_cards});
}

}  // namespace

absl::StatusOr<api::GPUPool> FindPool(const std::vector<kube::ObjectPtr>& pools, const std::string& name) {
  kube::ObjectPtr found;
  std::vector<std::string> names;
  for (const kube::ObjectPtr& pool : pools) {
    const std::string known(kube::Name(*pool));
    names.push_back(known);
    const bool fits = name.empty() ? kube::Annotation(*pool, api::kDefaultPoolAnnotation) == "true" : known == name;
    if (fits && (found == nullptr || known < kube::Name(*found))) found = pool;
  }
  std::sort(names.begin(), names.end());
  const std::string allowed = names.empty() ? "none, for there is no GPUPool" : absl::StrJoin(names, ", ");
  if (found == nullptr && name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "annotation ", api::kPoolAnnotation, " is missing, and no GPUPool is the default one; allowed: ", allowed));
  }
  if (found == nullptr || kube::IsBeingDeleted(*found)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "annotation ", api::kPoolAnnotation, ": \"", found == nullptr ? name : std::string(kube::Name(*found)),
        "\" is not allowed: there is no such GPUPool", found == nullptr ? "" : " any more", "; allowed: ", allowed));
  }
  return api::FromObject<api::GPUPool>(found);
}

kube::AdmissionResponse AdmitPod(const kube::AdmissionRequest& request, const PodSurroundings& around) {
  if (request.operation != "CREATE" || !request.subresource.empty() || !request.object.is_object()) {
    return kube::Allow();
  }
  if (kube::Label(request.object, api::kEnabledLabel) != "true") return kube::Allow();
  const std::string_view component = kube::Label(request.object, api::kComponentLabel);
  if (component == api::kWorkerComponent || component == api::kHypervisorComponent ||
      component == api::kOperatorComponent) {
    return kube::Allow();  // our own
  }
  absl::StatusOr<api::Pod> pod = api::FromJson<api::Pod>(request.object);
  if (!pod.ok()) return Refuse(kMistake, absl::StrCat("the pod cannot be read: ", pod.status().message()));
  if (pod->metadata.namespace_.empty()) pod->metadata.namespace_ = request.ns;
  absl::StatusOr<api::Pod> wanted = Admit(request, *pod, around);
  if (!wanted.ok()) return Refuse(wanted.status());
  // The namespace is the request's; what the object did not say of it stays unsaid.
  if (kube::Namespace(request.object).empty()) wanted->metadata.namespace_.clear();
  return kube::PatchTo(request, api::ToJson(*wanted));
}

void AddPodWebhook(kube::Manager& manager, Caches& caches, ComponentRevisions& revisions, std::string endpoint,
                   bool choose_cards) {
  kube::Informer& profiles = caches.profiles;
  kube::Informer& providers = Providers(manager);
  const PodSurroundings around{
      .pools = [&caches] { return caches.pools.All(); },
      .profile = [&profiles](const kube::Key& key) { return profiles.Get(key); },
      .client = [&revisions](const api::GPUPool& pool,
                             const std::string& ns) { return revisions.ForNewPod(pool, Component::kClient, "", ns); },
      .native_resources =
          [&providers] {
            std::vector<std::string> resources;
            for (const kube::ObjectPtr& object : providers.All()) {
              const absl::StatusOr<api::ProviderConfig> provider = api::FromObject<api::ProviderConfig>(object);
              if (!provider.ok()) continue;
              for (const std::string& name : provider->spec.inUseResourceNames) resources.push_back(name);
            }
            if (resources.empty()) resources.push_back("nvidia.com/gpu");
            return resources;
          },
      .endpoint = std::move(endpoint),
      .choose_cards = choose_cards};
  manager.AddWebhook(kPath, [around, &caches, &profiles, &providers](const kube::AdmissionRequest& request) {
    // Just started: what there is is known in a moment.
    for (kube::Informer* cache : {&caches.pools, &profiles, &providers}) {
      if (cache->synced()) continue;
      if (const absl::Status synced = cache->WaitForSync(kPatience); !synced.ok()) {
        return Refuse(kNotNow, absl::StrCat("the operator is starting: ", synced.message()));
      }
    }
    return AdmitPod(request, around);
  });
}

}  // namespace tf::operators
