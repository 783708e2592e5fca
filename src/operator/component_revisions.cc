#include "operator/component_revisions.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/provider_config.h"
#include "api/typed.h"
#include "license/builtin.h"
#include "operator/provider_settings.h"
#include "rollout/status.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;

api::ComponentConfig Configs(const api::GPUPool& pool) {
  return pool.spec.componentConfig.value_or(api::ComponentConfig{});
}

absl::Status NoBlock(const api::GPUPool& pool, Component component) {
  return absl::FailedPreconditionError(absl::StrCat("GPUPool ", pool.metadata.name, " has no spec.componentConfig.",
                                                    Name(component), ": expected image and podTemplate of the ",
                                                    Name(component)));
}

// Does the pool's status say that new pods must not get what the spec asks for?
bool IsSetAside(const api::GPUPool& pool, Component component, const std::string& config) {
  for (const api::RolloutStatus& rollout : pool.status.rollouts) {
    if (rollout.component != Name(component)) continue;
    if (rollout.reason == kLicenseRejected && Revision::Parse(rollout.toRevision).config == config) return true;
  }
  const rollout::State state = rollout::ReadState(pool.status.componentStatus, pool.status.rollouts);
  const std::string& rejected = state.components[static_cast<size_t>(component)].rejected;
  return !rejected.empty() && Revision::Parse(rejected).config == config;
}

}  // namespace

ServerRevisions::ServerRevisions(kube::Manager& manager, std::string ns)
    : manager_(manager),
      ns_(std::move(ns)),
      history_(manager, ns_),
      providers_(manager.Cache(api::ProviderConfig::kResource,
                               {.keep = {"apiVersion", "kind", "metadata.deletionTimestamp", "spec"}})) {
  objects_ = std::make_unique<ReferencedObjects>(manager.client(), [this] { Changed(); }, &manager.clock());
  providers_.AddHandler({.added = [this](const kube::ObjectPtr&, bool) { Changed(); },
                         .updated = [this](const kube::ObjectPtr&, const kube::ObjectPtr&) { Changed(); },
                         .deleted = [this](const kube::ObjectPtr&, bool) { Changed(); }});
  manager.Add({.name = "referenced objects",
               .start = [] { return absl::OkStatus(); },
               .stop = [this] { objects_->Stop(); },
               .needs_lease = false});
}

void ServerRevisions::OnChange(std::function<void()> changed) { changed_.push_back(std::move(changed)); }

absl::Status ServerRevisions::WaitForSync(absl::Duration limit) {
  if (absl::Status synced = history_.informer().WaitForSync(limit); !synced.ok()) return synced;
  return providers_.WaitForSync(limit);
}

void ServerRevisions::Changed() {
  for (const std::function<void()>& changed : changed_) changed();
}

Json ServerRevisions::Block(const api::ComponentConfig& config, Component component) {
  api::GPUPoolSpec spec;
  spec.componentConfig = config;
  const Json json = api::ToJson(spec);
  const Json* block = kube::FieldAt(json, {"componentConfig", Name(component)});
  return block == nullptr ? Json() : *block;
}

void ServerRevisions::SetBlock(api::ComponentConfig& config, Component component, const Json& block) {
  api::GPUPoolSpec spec;
  spec.componentConfig = config;
  Json json = api::ToJson(spec);
  kube::EnsureField(json, "componentConfig").get_object()[Name(component)] = block;
  absl::StatusOr<api::GPUPoolSpec> changed = api::FromJson<api::GPUPoolSpec>(json);
  if (changed.ok() && changed->componentConfig) config = *std::move(changed->componentConfig);
}

JsonObject ServerRevisions::ProviderSettings(Component component, const Json& block, const std::string& vendor) const {
  if (component == Component::kClient) return {};
  // An image that the pool names goes before the provider's, and the provider has nothing else for a worker.
  if (component == Component::kWorker && !kube::Text(block, "image").empty()) return {};
  kube::ObjectPtr found;
  for (const kube::ObjectPtr& provider : providers_.All()) {
    const std::string of(kube::Text(*provider, "spec.vendor"));
    if (!absl::EqualsIgnoreCase(of, vendor)) continue;
    if (found == nullptr || kube::Name(*provider) < kube::Name(*found)) found = provider;
  }
  if (found == nullptr) return {};
  const absl::StatusOr<api::ProviderConfig> provider = api::FromObject<api::ProviderConfig>(*found);
  if (!provider.ok()) return {};  // its own controller says what is wrong with it
  const Json settings =
      component == Component::kHypervisor ? HypervisorSettings(provider->spec) : WorkerSettings(provider->spec);
  return settings.get_object();
}

absl::StatusOr<std::string> ServerRevisions::Extra(const api::GPUPool& pool, Component component, const Json& block,
                                                   const std::string& vendor, const std::string& ns) {
  JsonObject extra;
  if (JsonObject settings = ProviderSettings(component, block, vendor); !settings.empty()) {
    extra["provider"] = std::move(settings);
  }
  if (const std::vector<Reference> references = ReferencesOf(block); !references.empty()) {
    absl::StatusOr<Json> digests = objects_->Digests(pool.metadata.name, ns, references);
    if (!digests.ok()) return digests.status();
    if (!digests->get_object().empty()) extra["objects"] = *std::move(digests);
  }
  const std::string_view restart =
      pool.metadata.Annotation(absl::StrCat(api::kRestartAnnotationPrefix, Name(component)));
  if (!restart.empty()) extra["restart"] = restart;
  return ExtraDigest(extra);
}

NamespaceLicense ServerRevisions::License(const std::string& pool, const Json& block, const std::string& ns,
                                          absl::Time now, const std::vector<std::string>& gpus) {
  NamespaceLicense license{.ns = ns};
  const Json* pod_template = kube::Field(block, "podTemplate");
  if (pod_template == nullptr) {
    license.absent = true;
    return license;
  }
  const absl::StatusOr<FoundLicense> found = FindLicense(
      *pod_template, ns,
      [&](Reference::Kind kind, const std::string& name) { return objects_->ValuesOf(pool, {kind, ns, name}); });
  if (!found.ok()) {
    license.unreadable = found.status();
  } else if (found->absent()) {
    license.absent = true;
  } else {
    license.check = CheckLicense(*found, now, gpus, license::BuiltinKeyring(), license::BuildTime());
  }
  return license;
}

std::optional<Json> ServerRevisions::BlockOf(const api::GPUPool& pool, Component component, const std::string& config) {
  if (Json block = Block(Configs(pool), component); !block.is_null() && ConfigDigest(block) == config) return block;
  return history_.Find(pool.metadata.uid, component, config);
}

absl::StatusOr<PodRevision> ServerRevisions::ForNewPod(const api::GPUPool& pool, Component component,
                                                       const std::string& vendor, const std::string& ns) {
  api::ComponentConfig configs = Configs(pool);
  Json block = Block(configs, component);
  if (block.is_null()) return NoBlock(pool, component);
  std::string config = ConfigDigest(block);
  bool set_aside = IsSetAside(pool, component, config);
  if (!set_aside && component == Component::kWorker) {
    set_aside = ObjectionOf(License(pool.metadata.name, block, ns, manager_.clock().Now(), {})).has_value();
  }
  if (set_aside) {
    const rollout::State state = rollout::ReadState(pool.status.componentStatus, pool.status.rollouts);
    const rollout::ComponentState& of = state.components[static_cast<size_t>(component)];
    const std::string good = Revision::Parse(of.last_good.empty() ? of.from : of.last_good).config;
    if (!good.empty() && good != config) {
      if (std::optional<Json> old = BlockOf(pool, component, good)) {
        SetBlock(configs, component, *old);
        block = *std::move(old);
        config = good;
      }
    }
  }
  const absl::StatusOr<std::string> extra = Extra(pool, component, block, vendor, ns);
  if (!extra.ok()) return extra.status();
  return PodRevision{Revision{config, {*extra}}.Text(), std::move(configs)};
}

}  // namespace tf::operators
