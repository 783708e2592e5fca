#include "kube/webhook_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::kube {
namespace {

constexpr size_t kMaxReview = 7 << 20;
constexpr absl::Duration kGrace = absl::Seconds(5);     // for reviews that are being answered when we stop
constexpr absl::Duration kLongest = absl::Seconds(30);  // that the API server allows for timeoutSeconds

}  // namespace

struct WebhookServer::Webhook {
  Webhook(Metrics& metrics, const std::string& path, AdmissionHandler handler)
      : handler(std::move(handler)),
        latency(metrics.Histogram("controller_runtime_webhook_latency_seconds", "How long an answer took",
                                  {{"webhook", path}}, {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10})),
        in_flight(metrics.Gauge("controller_runtime_webhook_requests_in_flight", "Reviews that are being answered",
                                {{"webhook", path}})) {}

  AdmissionHandler handler;
  prometheus::Histogram& latency;
  prometheus::Gauge& in_flight;
};

WebhookServer::WebhookServer(WebhookServerOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()),
      metrics_(options_.metrics != nullptr ? *options_.metrics : *own_metrics_) {}

WebhookServer::~WebhookServer() { Stop(); }

void WebhookServer::Handle(std::string path, AdmissionHandler handler) {
  webhooks_[path] = std::make_unique<Webhook>(metrics_, path, std::move(handler));
}

absl::Status WebhookServer::Start() {
  if (!options_.certificate) {
    auto certificate = CertificateFiles::Open(
        {.certificate_path = options_.certificate_path, .key_path = options_.key_path, .metrics = options_.metrics});
    if (!certificate.ok()) return certificate.status();
    certificate_ = *std::move(certificate);
  }
  auto server = http::Server::Start(
      {.address = options_.address,
       .port = options_.port,
       .tls = [this]() -> absl::StatusOr<http::ServerTls> {
         const auto pair = options_.certificate ? options_.certificate() : certificate_->current();
         if (pair == nullptr) return absl::UnavailableError("there is no certificate yet");
         return http::ServerTls{.certificate_pem = pair->certificate_pem, .key_pem = pair->key_pem};
       },
       .max_body = kMaxReview,
       .name = "webhook"},
      [this](const http::ServerRequest& request, http::ResponseWriter& writer) { Answer(request, writer); });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

void WebhookServer::Stop() {
  if (server_ != nullptr) server_->Stop(kGrace);
  server_.reset();
  certificate_.reset();
}

absl::Status WebhookServer::Ready() const {
  return server_ != nullptr ? absl::OkStatus() : absl::UnavailableError("the webhook server does not listen");
}

void WebhookServer::Answer(const http::ServerRequest& request, http::ResponseWriter& writer) {
  const auto found = webhooks_.find(request.path);
  if (found == webhooks_.end()) {
    (void)writer.Send(404, "text/plain", absl::StrCat("no webhook at ", request.path, "\n"));
    return;
  }
  if (request.method != "POST") {
    (void)writer.Send(405, "text/plain", "expected POST\n", {{"Allow", "POST"}});
    return;
  }
  Webhook& webhook = *found->second;
  const absl::Duration start = clock_.Monotonic();
  webhook.in_flight.Increment();
  // The API server says how long it waits ("10s"); a tenth of it is for the way back.
  absl::Duration timeout = kLongest;
  const std::string_view asked = request.Query("timeout");
  if (absl::Duration said;
      absl::ParseDuration(absl::string_view(asked.data(), asked.size()), &said) && said > absl::ZeroDuration()) {
    timeout = std::min(said, kLongest);
  }
  const Reviewed reviewed =
      Review(request.Header("content-type"), request.body, start + timeout * 0.9, webhook.handler);
  // Nobody is there to be told when it fails.
  (void)writer.Send(200, "application/json", reviewed.body);
  webhook.in_flight.Decrement();
  webhook.latency.Observe(absl::ToDoubleSeconds(clock_.Monotonic() - start));
  metrics_
      .Counter("controller_runtime_webhook_requests_total", "Reviews answered, by the code of the answer",
               {{"webhook", request.path}, {"code", absl::StrCat(reviewed.code)}})
      .Increment();
}

}  // namespace tf::kube
