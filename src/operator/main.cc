// tensor-fusion-operator: the controllers of tensor-fusion.ai/v1. Each is a class that adds itself to the manager; what
// they share are the caches. SchedulingConfigTemplates have no controller: they are read where they are used.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "api/names.h"
#include "base/log.h"
#include "kube/manager.h"
#include "kube/manager_flags.h"
#include "operator/caches.h"
#include "operator/cluster_controller.h"
#include "operator/component_revisions.h"
#include "operator/connection_controller.h"
#include "operator/connection_endpoint.h"
#include "operator/crd_check.h"
#include "operator/gpunode_controller.h"
#include "operator/node_controller.h"
#include "operator/pod_cache.h"
#include "operator/pod_webhook.h"
#include "operator/pool_controller.h"
#include "operator/pool_rollouts.h"
#include "operator/scheduler_extender.h"
#include "operator/validation.h"
#include "operator/webhook_certificates.h"
#include "operator/workload_controller.h"

namespace {

constexpr char kName[] = "tensor-fusion-operator";

// Every flag has a variable: --leader-elect is TF_LEADER_ELECT.
void AddVariables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    std::string variable = "TF_";
    for (const char c : option->get_lnames()[0]) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname(variable);
  }
}

}  // namespace

int main(int argc, char** argv) {
  tf::InitLog(kName);
  // Many threads, none of which is busy for long: what one has given back is there for the next.
  mallopt(M_ARENA_MAX, 2);
  const char* given = std::getenv("OPERATOR_NAMESPACE");
  const std::string ns = given == nullptr ? tf::api::kSystemNamespace : given;
  tf::kube::ManagerOptions options{
      .name = kName, .leader_elect = true, .lease_namespace = ns, .lease_name = "85104305.tensor-fusion.ai"};
  CLI::App app("Controllers of tensor-fusion.ai/v1: clusters, pools, nodes and the components that run on them", kName);
  tf::kube::AddManagerFlags(app, options);
  std::string crds = "apply";
  app.add_option("--crds", crds, "CustomResourceDefinitions that are too old: apply ours, or check and say which")
      ->check(CLI::IsMember({"apply", "check"}))
      ->capture_default_str();
  tf::operators::WebhookCertificates::Options webhook{.secret_namespace = ns};
  app.add_option("--webhook-configuration", webhook.configuration,
                 "ValidatingWebhookConfiguration whose CA bundle is ours to keep right; without it, and without "
                 "--webhook-certificate, there are no webhooks");
  webhook.secret_name = "tensor-fusion-webhook-secret";
  app.add_option("--webhook-secret", webhook.secret_name, "Where its authority is kept; made when it is not there")
      ->capture_default_str();
  app.add_option("--webhook-host", webhook.hosts, "Names and addresses that the API server calls webhooks by")
      ->delimiter(',');
  app.add_option("--mutating-webhook-configuration", webhook.mutating_configuration,
                 "MutatingWebhookConfiguration whose CA bundle is ours to keep right, too");
  app.add_flag("--webhook-url", webhook.by_url, "They are called by URL at the first of these, not through a Service");
  tf::operators::ConnectionEndpoint::Options connections_at;
  tf::kube::AddAddressFlag(app, "--connection-bind-address", connections_at.address, connections_at.port,
                           "Where clients ask for their workers; without this option nobody can");
  std::string endpoint;
  app.add_option("--connection-endpoint", endpoint,
                 "http://HOST:PORT by which pods find that, where their pool names no operatorEndpoint");
  tf::operators::SchedulerExtender::Options extender_at;
  tf::kube::AddAddressFlag(
      app, "--scheduler-extender-bind-address", extender_at.address, extender_at.port,
      "Where kube-scheduler asks for the cards of pods (without TLS: keep it on loopback); without "
      "this option nobody chooses cards, and pods that ask for certain ones are refused");
  AddVariables(app);
  app.footer(
      "Environment:\n"
      "  OPERATOR_NAMESPACE  the namespace of its lease and of what it makes; tensor-fusion-sys\n"
      "  INITIAL_GPU_NODE_LABEL_SELECTOR  nodes with other labels are not looked at; all\n"
      "  TF_ENABLE_LOG=1  log to standard error; TF_LOG_LEVEL: trace, debug, info, warn, error, off");
  CLI11_PARSE(app, argc, argv);

  const bool own_certificates = !webhook.configuration.empty();
  const bool webhooks = own_certificates || app.count("--webhook-certificate") > 0;
  if (own_certificates && webhook.hosts.empty()) {
    return std::fprintf(stderr, "%s: --webhook-configuration needs --webhook-host\n", kName), 2;
  }
  webhook.port = options.webhook.port;
  tf::operators::WebhookCertificates certificates(webhook);
  if (own_certificates) options.webhook.certificate = [&certificates] { return certificates.current(); };

  const auto manager = tf::kube::Manager::Make(options);
  if (!manager.ok()) return std::fprintf(stderr, "%s\n", manager.status().ToString().c_str()), 1;
  tf::operators::AddCrdCheck(**manager,
                             crds == "apply" ? tf::operators::CrdPolicy::kApply : tf::operators::CrdPolicy::kCheck);
  tf::operators::Caches caches(**manager);
  if (own_certificates) certificates.AddTo(**manager);
  if (webhooks) tf::operators::AddValidation(**manager, caches.pools);
  const tf::operators::ClusterController clusters(**manager, caches);
  tf::operators::PodCaches pods(**manager);
  tf::operators::ServerRevisions revisions(**manager, ns);
  tf::operators::PoolRollouts rollouts(**manager, caches, pods, revisions);
  const tf::operators::PoolController pools(**manager, caches, rollouts);
  const tf::operators::NodeController nodes(**manager, caches);
  const tf::operators::GpuNodeController gpu_nodes(**manager, caches, pods, revisions, ns);
  const bool choose_cards = app.count("--scheduler-extender-bind-address") > 0;
  const tf::operators::WorkloadController workloads(**manager, caches, pods, revisions, choose_cards);
  const tf::operators::ConnectionController connections(**manager, caches, pods);
  tf::operators::ConnectionEndpoint connection_endpoint(connections_at);
  if (app.count("--connection-bind-address") > 0) connection_endpoint.AddTo(**manager, caches.connections);
  if (webhooks) tf::operators::AddPodWebhook(**manager, caches, revisions, endpoint, choose_cards);
  std::optional<tf::operators::SchedulerExtender> extender;
  if (choose_cards) extender.emplace(**manager, caches, pods, extender_at);
  return (*manager)->Run();
}
