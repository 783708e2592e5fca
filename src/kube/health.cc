#include "kube/health.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tf::kube {

void Health::AddLive(std::string name, HealthCheck check) {
  std::lock_guard lock(mutex_);
  live_.emplace_back(std::move(name), std::move(check));
}

void Health::AddReady(std::string name, HealthCheck check) {
  std::lock_guard lock(mutex_);
  ready_.emplace_back(std::move(name), std::move(check));
}

Health::Page Health::Answer(std::string_view path, bool verbose, const std::vector<std::string>& exclude) const {
  const size_t slash = path.find('/', 1);
  const std::string page(path.substr(0, slash));
  const std::string one(slash == std::string_view::npos ? "" : path.substr(slash + 1));
  Checks checks;
  {
    std::lock_guard lock(mutex_);
    if (page == "/healthz") {
      checks = live_;
    } else if (page == "/readyz") {
      checks = ready_;
    } else {
      return {404, "expected /healthz or /readyz\n"};
    }
  }
  checks.insert(checks.begin(), {"ping", [] { return absl::OkStatus(); }});
  std::string lines;
  bool ok = true;
  bool asked = one.empty();
  for (const auto& [name, check] : checks) {
    if (!one.empty() && name != one) continue;
    asked = true;
    if (std::find(exclude.begin(), exclude.end(), name) != exclude.end()) {
      absl::StrAppend(&lines, "[+]", name, " excluded: ok\n");
      continue;
    }
    const absl::Status status = check();
    if (status.ok()) {
      absl::StrAppend(&lines, "[+]", name, " ok\n");
    } else {
      ok = false;
      absl::StrAppend(&lines, "[-]", name, " failed: reason withheld\n");
      spdlog::info("{}: {}: {}", page.substr(1), name, std::string(status.message()));
    }
  }
  if (!asked) return {404, absl::StrCat("no check \"", one, "\"\n")};
  if (!ok) return {500, absl::StrCat(lines, page.substr(1), " check failed\n")};
  if (verbose) return {200, absl::StrCat(lines, page.substr(1), " check passed\n")};
  return {200, "ok"};
}

absl::StatusOr<std::unique_ptr<http::Server>> StartHealthServer(const HealthServerOptions& options,
                                                                const Health& health, const Metrics& metrics) {
  return http::Server::Start({.address = options.address, .port = options.port, .max_body = 4096, .name = "health"},
                             [&health, &metrics](const http::ServerRequest& request, http::ResponseWriter& writer) {
                               if (request.method != "GET" && request.method != "HEAD") {
                                 (void)writer.Send(405, "text/plain", "expected GET\n", {{"Allow", "GET"}});
                                 return;
                               }
                               if (request.path == "/metrics") {
                                 (void)writer.Send(200, "text/plain; version=0.0.4; charset=utf-8", metrics.Text());
                                 return;
                               }
                               bool verbose = false;
                               std::vector<std::string> exclude;
                               for (const auto& [name, value] : request.query) {
                                 if (name == "verbose") verbose = true;
                                 if (name == "exclude") exclude.push_back(value);
                               }
                               const Health::Page page = health.Answer(request.path, verbose, exclude);
                               (void)writer.Send(page.status, "text/plain; charset=utf-8", page.body);
                             });
}

}  // namespace tf::kube
