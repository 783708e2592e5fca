#include "operator/connection_endpoint.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kube/owners.h"
#include "operator/pod_injection.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;

constexpr char kPath[] = "/api/connection";
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr absl::Duration kReviewLimit = absl::Seconds(10);
const kube::Resource kTokenReview{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};

std::string BearerOf(const http::ServerRequest& request) {
  const std::string_view header = request.Header("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  return header.starts_with(kBearer) ? std::string(header.substr(kBearer.size())) : "";
}

}  // namespace

ConnectionEndpoint::ConnectionEndpoint(Options options) : options_(std::move(options)) {}

ConnectionEndpoint::~ConnectionEndpoint() { Stop(); }

void ConnectionEndpoint::AddTo(kube::Manager& manager, kube::Informer& connections) {
  // A review is a question, though it is sent as a creation: replicas that do not lead may ask it.
  kube::Config config = manager.config();
  config.admit_write = {};
  client_ = std::make_unique<kube::Client>(std::make_shared<const kube::Config>(std::move(config)),
                                           "tensor-fusion-operator (connection-endpoint)");
  clock_ = &manager.clock();
  connections_ = &connections;
  const auto wake = [this] {
    std::lock_guard lock(mutex_);
    ++changes_;
    changed_.notify_all();
  };
  connections.AddHandler({.added = [wake](const kube::ObjectPtr&, bool) { wake(); },
                          .updated = [wake](const kube::ObjectPtr&, const kube::ObjectPtr&) { wake(); },
                          .deleted = [wake](const kube::ObjectPtr&, bool) { wake(); }});
  manager.Add({.name = "connection endpoint",
               .start = [this] { return Start(); },
               .stop = [this] { Stop(); },
               .needs_lease = false});
}

absl::Status ConnectionEndpoint::Start() {
  http::ServerOptions options;
  options.address = options_.address;
  options.port = options_.port;
  options.max_body = 1 << 16;
  options.name = "connections";
  auto server = http::Server::Start(
      std::move(options),
      [this](const http::ServerRequest& request, http::ResponseWriter& writer) { Answer(request, writer); });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

void ConnectionEndpoint::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (server_ != nullptr) server_->Stop();
}

absl::StatusOr<ConnectionEndpoint::Caller> ConnectionEndpoint::Review(const std::string& token) {
  if (token.empty()) return absl::UnauthenticatedError("expected: Authorization: Bearer TOKEN");
  const Json review =
      kube::JsonObject{{"apiVersion", "authentication.k8s.io/v1"},
                       {"kind", "TokenReview"},
                       {"spec", kube::JsonObject{{"token", token}, {"audiences", kube::JsonArray{kTokenAudience}}}}};
  kube::WriteOptions options;
  options.limit = kReviewLimit;
  const absl::StatusOr<Json> answer = client_->Create(kTokenReview, review, options);
  if (!answer.ok()) {
    spdlog::warn("connections: a token cannot be reviewed: {}", std::string(answer.status().message()));
    return absl::UnavailableError("the API server cannot be asked about the token at the moment");
  }
  const Json* audiences = kube::Field(*answer, "status.audiences");
  const bool for_us = audiences != nullptr && audiences->is_array() &&
                      std::any_of(audiences->get_array().begin(), audiences->get_array().end(),
                                  [](const Json& one) { return one == kTokenAudience; });
  if (!kube::Flag(*answer, "status.authenticated") || !for_us) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the token is not valid; expected: a service-account token of the pod for audience ", kTokenAudience));
  }
  // system:serviceaccount:NAMESPACE:NAME
  Caller caller;
  const std::string user(kube::Text(*answer, "status.user.username"));
  constexpr std::string_view kAccount = "system:serviceaccount:";
  if (user.starts_with(kAccount)) caller.ns = user.substr(kAccount.size(), user.rfind(':') - kAccount.size());
  const Json* uid = kube::FieldAt(*answer, {"status", "user", "extra", "authentication.kubernetes.io/pod-uid"});
  if (uid != nullptr && uid->is_array() && uid->get_array().size() == 1 && uid->get_array()[0].is_string()) {
    const auto& text = uid->get_array()[0].get_string();
    caller.pod_uid.assign(text.data(), text.size());
  }
  if (caller.ns.empty() || caller.pod_uid.empty()) return absl::UnauthenticatedError("the token is not one of a pod");
  return caller;
}

void ConnectionEndpoint::Answer(const http::ServerRequest& request, http::ResponseWriter& writer) {
  const auto say = [&](int status, std::string_view text) {
    http::Headers more;
    if (status == 503) more.emplace_back("Retry-After", "1");
    (void)writer.Send(status, kText, text, more);
  };
  if (request.path != kPath) return say(404, absl::StrCat("expected: ", kPath));
  if (request.method != "GET") return say(405, "expected: GET");
  const kube::Key key{std::string(request.Query("namespace")), std::string(request.Query("name"))};
  if (key.ns.empty() || key.name.empty()) return say(400, "expected: ?name=NAME&namespace=NAMESPACE");
  const absl::StatusOr<Caller> caller = Review(BearerOf(request));
  if (!caller.ok())
    return say(absl::IsUnauthenticated(caller.status()) ? 401 : 503, std::string(caller.status().message()));
  // A stranger learns nothing of what there is in other namespaces.
  if (caller->ns != key.ns) return say(403, "the token is of another namespace");

  std::unique_lock lock(mutex_);
  if (waiting_ >= options_.most_waiting) {
    lock.unlock();
    return say(503, "too many clients wait at the moment");
  }
  ++waiting_;
  const absl::Duration deadline = clock_->Monotonic() + options_.hold;
  int status = 404;
  std::string text;
  for (;;) {
    const uint64_t seen = changes_;
    lock.unlock();
    const kube::ObjectPtr connection = connections_->Get(key);
    status = 404;
    text = absl::StrCat("there is no TensorFusionConnection ", key.ToString());
    if (connection != nullptr) {
      const Json* owner = kube::ControllerOf(*connection);
      const bool own =
          owner != nullptr && kube::Text(*owner, "kind") == "Pod" && kube::Text(*owner, "uid") == caller->pod_uid;
      const std::string_view url = kube::Text(*connection, "status.connectionURL");
      status = !own ? 403 : url.empty() ? 503 : 200;
      text = !own          ? "the token is of another pod than the connection"
             : url.empty() ? "its worker is not ready yet"
                           : std::string(url);
    }
    lock.lock();
    if (status == 200 || status == 403 || stop_) break;
    clock_->WaitUntil(lock, changed_, deadline, [&] { return stop_ || changes_ != seen; });
    if (clock_->Monotonic() >= deadline) break;
  }
  --waiting_;
  lock.unlock();
  say(status, text);
}

}  // namespace tf::operators
