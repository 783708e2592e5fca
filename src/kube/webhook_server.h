// Admission webhooks over TLS (1.2 or newer).
//
// Each path has a handler; the certificate may be renewed while it runs, in files or by who makes it; reviews of up to
// 7 MiB are read. Every POST of a known path is answered 200 with a review (admission.h). It runs without leadership:
// each replica answers. Metrics are controller-runtime's. Handlers run on the connections' threads, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "http/server.h"
#include "kube/admission.h"
#include "kube/certificate_files.h"
#include "kube/metrics.h"

namespace tf::kube {

struct WebhookServerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 9443;  // 0: a free one
  std::string certificate_path = "/tmp/k8s-webhook-server/serving-certs/tls.crt";
  std::string key_path = "/tmp/k8s-webhook-server/serving-certs/tls.key";
  // Instead of files: asked at each new connection. Null: there is none yet, and connections are refused.
  std::function<std::shared_ptr<const CertificatePair>()> certificate = {};
  Clock* clock = nullptr;      // RealClock()
  Metrics* metrics = nullptr;  // none: nobody looks
};

class WebhookServer {
 public:
  explicit WebhookServer(WebhookServerOptions options);
  ~WebhookServer();  // Stop()

  // Before Start. `path` begins with "/" and is the webhook's label in the metrics, as controller-runtime has it.
  void Handle(std::string path, AdmissionHandler handler);

  // Listens when it returns.
  absl::Status Start();
  void Stop();

  uint16_t port() const { return server_ == nullptr ? 0 : server_->port(); }
  absl::Status Ready() const;  // it listens

 private:
  struct Webhook;

  void Answer(const http::ServerRequest& request, http::ResponseWriter& writer);

  const WebhookServerOptions options_;
  Clock& clock_;
  std::unique_ptr<Metrics> own_metrics_;
  Metrics& metrics_;
  std::map<std::string, std::unique_ptr<Webhook>> webhooks_;
  std::unique_ptr<CertificateFiles> certificate_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace tf::kube
