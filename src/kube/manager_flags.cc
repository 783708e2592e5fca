#include "kube/manager_flags.h"

#include <CLI/CLI.hpp>
#include <string>

namespace tf::kube {
namespace {

void AddDuration(CLI::App& app, const char* name, absl::Duration& value, const char* help) {
  app.add_option_function<std::string>(
         name,
         [&value, name](const std::string& text) {
           if (!absl::ParseDuration(text, &value)) {
             throw CLI::ValidationError(name, "expected a duration such as 15s or 400ms, found \"" + text + "\"");
           }
         },
         help)
      ->default_str(absl::FormatDuration(value));
}

}  // namespace

void AddAddressFlag(CLI::App& app, const std::string& name, std::string& address, uint16_t& port, const char* help) {
  app.add_option_function<std::string>(
         name,
         [&address, &port, name](const std::string& text) {
           const size_t colon = text.rfind(':');
           unsigned number = 0;
           if (colon == std::string::npos || !CLI::detail::lexical_cast(text.substr(colon + 1), number) ||
               number > 65535) {
             throw CLI::ValidationError(name, "expected ADDRESS:PORT or :PORT, found \"" + text + "\"");
           }
           address = colon == 0 ? "0.0.0.0" : text.substr(0, colon);
           port = static_cast<uint16_t>(number);
         },
         help)
      ->default_str(address + ":" + std::to_string(port));
}

void AddManagerFlags(CLI::App& app, ManagerOptions& options) {
  app.add_option("--kubeconfig", options.config.kubeconfig,
                 "How the API server is found; without it KUBECONFIG, the service account of the pod, ~/.kube/config");
  app.add_option("--context", options.config.context, "Of the kubeconfig; without it the current one");
  app.add_flag("--leader-elect,!--no-leader-elect", options.leader_elect,
               "Only one replica works at a time, by a Lease");
  app.add_option("--leader-election-namespace", options.lease_namespace,
                 "Of the Lease; without it that of the configuration");
  app.add_option("--leader-election-id", options.lease_name, "Name of the Lease; without it the program's");
  AddDuration(app, "--leader-election-lease-duration", options.lease.duration,
              "How long the others wait for a silent leader; whole seconds");
  AddDuration(app, "--leader-election-renew-deadline", options.lease.renew_deadline,
              "How long a leader goes on that cannot renew its lease");
  AddDuration(app, "--leader-election-retry-period", options.lease.retry, "Between renewals");
  AddDuration(app, "--leader-election-request-limit", options.lease.request_limit, "Of one request of the election");
  AddAddressFlag(app, "--health-bind-address", options.health.address, options.health.port,
                 "/healthz, /readyz and /metrics; port 0: a free one");
  AddAddressFlag(app, "--webhook-bind-address", options.webhook.address, options.webhook.port, "Admission webhooks");
  app.add_option("--webhook-certificate", options.webhook.certificate_path, "PEM file, read again when it changes")
      ->capture_default_str();
  app.add_option("--webhook-key", options.webhook.key_path, "PEM file")->capture_default_str();
}

std::optional<int> ParseManagerFlags(int argc, char** argv, ManagerOptions& options) {
  CLI::App app(options.name);
  AddManagerFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return std::nullopt;
}

}  // namespace tf::kube
