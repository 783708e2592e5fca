#include "operator/webhook_certificates.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "http/certificates.h"
#include "kube/error.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

constexpr char kAuthorities[] = "ca.crt";
constexpr char kKey[] = "ca.key";
// More than renewals can bring together; a loop of deletions is not to fill the object.
constexpr size_t kMostTrusted = 8;
constexpr absl::Duration kRetry = absl::Seconds(5);
constexpr absl::Duration kLongest = absl::Hours(1);  // the wall clock may jump meanwhile

std::string Decoded(const kube::Json& object, std::initializer_list<std::string_view> path) {
  const kube::Json* value = kube::FieldAt(object, path);
  std::string bytes;
  if (value == nullptr || !value->is_string()) return "";
  const auto& text = value->get_string();
  if (!absl::Base64Unescape(absl::string_view(text.data(), text.size()), &bytes)) return "";
  return bytes;
}

std::string Encoded(const std::string& bytes) {
  std::string text;
  absl::Base64Escape(bytes, &text);
  return text;
}

// The newest first, each once, without those that have expired.
std::string Joined(const std::vector<http::BundledCertificate>& certificates, absl::Time now) {
  std::string text;
  size_t count = 0;
  for (const http::BundledCertificate& certificate : certificates) {
    if (certificate.not_after <= now || text.find(certificate.pem) != std::string::npos) continue;
    if (++count > kMostTrusted) break;
    text += certificate.pem;
  }
  return text;
}

bool IsAddress(const std::string& host) {
  return host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
}

// The part of a URL from the path on.
std::string PathOf(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t slash = url.find('/', scheme == std::string_view::npos ? 0 : scheme + 3);
  return slash == std::string_view::npos ? "/" : std::string(url.substr(slash));
}

}  // namespace

WebhookAuthority::WebhookAuthority(Options options) : options_(std::move(options)) {}

absl::Status WebhookAuthority::Sign(const std::string& certificate, const std::string& key, absl::Time now) {
  const auto authority = http::CertificateAuthority::Load({certificate, key});
  if (!authority.ok()) return authority.status();
  http::CertificateRequest request{
      .common_name = "tensor-fusion-webhook", .server = true, .life = options_.serving_life};
  for (const std::string& host : options_.hosts) {
    (IsAddress(host) ? request.ip_addresses : request.dns_names).push_back(host);
  }
  auto issued = authority->Issue(request, now);
  if (!issued.ok()) return issued.status();
  serving_ = std::make_shared<const kube::CertificatePair>(
      kube::CertificatePair{.certificate_pem = issued->certificate, .key_pem = issued->key});
  signer_ = certificate;
  serving_from_ = now;
  serving_until_ = std::min(now + options_.serving_life, authority->not_after());
  return absl::OkStatus();
}

WebhookAuthority::Carried WebhookAuthority::LookAt(const kube::Json& configuration,
                                                   const std::vector<http::BundledCertificate>& trusted, bool leads,
                                                   absl::Time now) const {
  // At least what the Secret says; other authorities there that have not expired stay, for another replica may know
  // more than we do.
  Carried carried;
  const std::string& newest = trusted[0].pem;
  kube::JsonArray patches;
  const kube::Json* webhooks = kube::Field(configuration, "webhooks");
  for (const kube::Json& webhook :
       webhooks != nullptr && webhooks->is_array() ? webhooks->get_array() : kube::JsonArray()) {
    const std::string bundle = Decoded(webhook, {"clientConfig", "caBundle"});
    const std::vector<http::BundledCertificate> known = http::ReadBundle(bundle);
    const auto knows = [&](const std::string& certificate) {
      return std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.pem == certificate; });
    };
    carried.newest = carried.newest && knows(newest);
    carried.serving = carried.serving && knows(signer_.empty() ? newest : signer_);
    std::vector<http::BundledCertificate> wanted = trusted;
    wanted.insert(wanted.end(), known.begin(), known.end());
    // The order alone is no reason to write: the other replica may see it the other way round.
    const std::string joined = Joined(wanted, now);
    kube::JsonObject client_config;
    const bool all_known = std::all_of(trusted.begin(), trusted.end(),
                                       [&](const auto& one) { return one.not_after <= now || knows(one.pem); });
    const bool expired = std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.not_after <= now; });
    if (!all_known || expired) client_config["caBundle"] = Encoded(joined);
    if (!options_.url.empty() && leads) {
      const std::string_view now_at = kube::Text(webhook, "clientConfig.url");
      const std::string wanted_url = absl::StrCat(options_.url, PathOf(now_at));
      if (now_at != wanted_url) client_config["url"] = wanted_url;
    }
    if (client_config.empty()) continue;
    patches.push_back(kube::JsonObject{{"name", std::string(kube::Text(webhook, "name"))},
                                       {"clientConfig", std::move(client_config)}});
  }
  if (!patches.empty()) {
    carried.patch =
        kube::JsonObject{{"metadata", {{"resourceVersion", std::string(kube::ResourceVersion(configuration))}}},
                         {"webhooks", std::move(patches)}};
  }
  return carried;
}

absl::StatusOr<WebhookAuthority::Outcome> WebhookAuthority::Look(const View& view, absl::Time now,
                                                                 absl::Duration monotonic) {
  Outcome outcome;
  std::vector<http::BundledCertificate> trusted;
  std::string key;
  if (view.secret != nullptr) {
    trusted = http::ReadBundle(Decoded(*view.secret, {"data", kAuthorities}));
    key = Decoded(*view.secret, {"data", kKey});
  }

  // The authority. One whose beginning lies ahead is of a clock that has been put back since: nobody would trust it.
  const bool usable = !trusted.empty() && http::CertificateAuthority::Load({trusted[0].pem, key}).ok() &&
                      trusted[0].not_before <= now && now < trusted[0].not_after;
  const absl::Time renew_at =
      usable ? trusted[0].not_before + (trusted[0].not_after - trusted[0].not_before) * 2 / 3 : absl::InfinitePast();
  if (now >= renew_at) {
    const auto made = http::CertificateAuthority::Create("tensor-fusion-webhook-ca", now, options_.authority_life);
    if (!made.ok()) return made.status();
    trusted.insert(trusted.begin(), {made->pair().certificate, made->not_before(), made->not_after()});
    kube::Json secret =
        view.secret != nullptr
            ? kube::Json(*view.secret)
            : kube::JsonObject{{"apiVersion", "v1"},
                               {"kind", "Secret"},
                               {"type", "Opaque"},
                               {"metadata", {{"namespace", options_.secret.ns}, {"name", options_.secret.name}}}};
    secret.as_object()["data"] =
        kube::JsonObject{{kAuthorities, Encoded(Joined(trusted, now))}, {kKey, Encoded(made->pair().key)}};
    outcome.secret = std::move(secret);
    // What is served goes on; the new authority counts once it is stored.
    outcome.ready =
        serving_ != nullptr ? absl::OkStatus() : absl::UnavailableError("the webhooks' authority is not stored yet");
    return outcome;
  }
  const std::string& newest = trusted[0].pem;

  bool carried = true;        // all webhooks have the Secret's authority
  bool serving_known = true;  // and the one that we serve with
  for (const kube::ObjectPtr& configuration : view.configurations) {
    Carried one;
    if (configuration != nullptr) one = LookAt(*configuration, trusted, view.leads, now);
    carried = carried && one.newest;
    serving_known = serving_known && one.serving;
    outcome.configurations.push_back(std::move(one.patch));
  }
  if (!carried) {
    carried_.clear();
  } else if (carried_ != newest) {
    carried_ = newest;
    carried_since_ = monotonic;
  }

  // What we serve.
  const absl::Time sign_again = serving_from_ + (serving_until_ - serving_from_) * 2 / 3;
  const absl::Duration settled_in = carried ? carried_since_ + options_.settle - monotonic : absl::InfiniteDuration();
  const bool out_of_time = serving_ != nullptr && (now >= serving_until_ || now < serving_from_ - absl::Hours(1));
  if (serving_ == nullptr || out_of_time || (signer_ == newest && now >= sign_again) ||
      (signer_ != newest && settled_in <= absl::ZeroDuration())) {
    if (absl::Status status = Sign(newest, key, now); !status.ok()) return status;
    serving_known = carried;
  }
  if (!serving_known) {
    outcome.ready = absl::UnavailableError("the webhook configuration does not know our authority yet");
  }

  const absl::Time next = std::min({renew_at, serving_from_ + (serving_until_ - serving_from_) * 2 / 3});
  outcome.look_again = std::min(kLongest, std::max(next - now, absl::Seconds(1)));
  if (signer_ != newest && carried) {
    outcome.look_again = std::min(outcome.look_again, std::max(settled_in, absl::Seconds(1)));
  }
  return outcome;
}

WebhookCertificates::WebhookCertificates(Options options)
    : options_(std::move(options)),
      authority_({.secret = {options_.secret_namespace, options_.secret_name},
                  .hosts = options_.hosts,
                  .url = options_.by_url && !options_.hosts.empty()
                             ? absl::StrCat("https://", options_.hosts[0], ":", options_.port)
                             : "",
                  .settle = options_.settle}) {}

WebhookCertificates::~WebhookCertificates() { Stop(); }

std::shared_ptr<const kube::CertificatePair> WebhookCertificates::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void WebhookCertificates::AddTo(kube::Manager& manager) {
  // Every replica may have to write, also one that does not lead: resource versions are the fence.
  kube::Config config = manager.config();
  config.admit_write = {};
  client_ = std::make_unique<kube::Client>(std::make_shared<const kube::Config>(std::move(config)),
                                           "tensor-fusion-operator (webhook-certificates)");
  clock_ = &manager.clock();
  expiry_ = &manager.metrics().Gauge("tensor_fusion_webhook_certificate_expiry_timestamp_seconds",
                                     "When the webhooks' serving certificate ends", {});
  secrets_ = &manager.Cache(
      kube::core::kSecret,
      {.ns = options_.secret_namespace, .field_selector = absl::StrCat("metadata.name=", options_.secret_name)});
  for (const auto& [resource, name] :
       {std::make_pair(kValidatingWebhookConfiguration, options_.configuration),
        std::make_pair(kMutatingWebhookConfiguration, options_.mutating_configuration)}) {
    if (name.empty()) continue;
    configurations_.push_back(
        {resource, name, &manager.Cache(resource, {.field_selector = absl::StrCat("metadata.name=", name)})});
  }
  const kube::Handler wake{.added = [this](const kube::ObjectPtr&, bool) { Wake(); },
                           .updated = [this](const kube::ObjectPtr&, const kube::ObjectPtr&) { Wake(); },
                           .deleted = [this](const kube::ObjectPtr&, bool) { Wake(); }};
  secrets_->AddHandler(wake);
  for (const Configuration& configuration : configurations_) configuration.cache->AddHandler(wake);
  manager.health().AddReady("webhook-certificate", [this] {
    std::lock_guard lock(mutex_);
    return ready_;
  });
  manager.Add({.name = "webhook certificates",
               .start = [this] { return Start(); },
               .stop = [this] { Stop(); },
               .needs_lease = false});
  manager.Add({.name = "webhook certificates' leader",
               .start =
                   [this] {
                     std::lock_guard lock(mutex_);
                     leads_ = woken_ = true;
                     changed_.notify_all();
                     return absl::OkStatus();
                   },
               .stop = [] {}});
}

absl::Status WebhookCertificates::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "webhook certs");
    Run();
  });
  return absl::OkStatus();
}

void WebhookCertificates::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void WebhookCertificates::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void WebhookCertificates::Run() {
  std::unique_lock lock(mutex_);
  absl::Duration deadline = absl::ZeroDuration();
  while (!stop_) {
    clock_->WaitUntil(lock, changed_, deadline, [&] { return stop_ || woken_; });
    if (stop_) return;
    woken_ = false;
    lock.unlock();
    const absl::Duration wait = LookOnce();
    lock.lock();
    deadline = clock_->Monotonic() + wait;
  }
}

absl::Duration WebhookCertificates::LookOnce() {
  if (!secrets_->synced()) return kRetry;
  WebhookAuthority::View view{.secret = secrets_->Get({options_.secret_namespace, options_.secret_name})};
  for (const Configuration& configuration : configurations_) {
    if (!configuration.cache->synced()) return kRetry;
    view.configurations.push_back(configuration.cache->Get({"", configuration.name}));
  }
  {
    std::lock_guard lock(mutex_);
    view.leads = leads_;
  }
  const auto outcome = authority_.Look(view, clock_->Now(), clock_->Monotonic());
  absl::Status written;
  if (outcome.ok() && outcome->secret.has_value()) {
    spdlog::info("webhook certificates: {} Secret {}/{}",
                 view.secret == nullptr ? "making" : "renewing the authority in", options_.secret_namespace,
                 options_.secret_name);
    written = view.secret == nullptr ? client_->Create(kube::core::kSecret, *outcome->secret).status()
                                     : client_->Update(kube::core::kSecret, *outcome->secret).status();
  } else if (outcome.ok()) {
    for (size_t i = 0; i < outcome->configurations.size(); ++i) {
      if (!outcome->configurations[i].has_value()) continue;
      kube::PatchOptions patch;
      patch.type = kube::PatchType::kStrategic;
      patch.field_manager = "tensor-fusion-operator";
      absl::Status patched =
          client_->Patch(configurations_[i].resource, {"", configurations_[i].name}, *outcome->configurations[i], patch)
              .status();
      if (!kube::IsConflict(patched)) written.Update(std::move(patched));
    }
  }
  // Another replica was faster: its write comes by the watch.
  if (kube::IsConflict(written) || kube::IsAlreadyExists(written)) written = absl::OkStatus();
  if (!outcome.ok()) spdlog::error("webhook certificates: {}", std::string(outcome.status().message()));
  if (!written.ok()) spdlog::warn("webhook certificates: {}", std::string(written.message()));
  {
    std::lock_guard lock(mutex_);
    current_ = authority_.serving();
    ready_ = !outcome.ok() ? outcome.status() : written.ok() ? outcome->ready : written;
    if (current_ != nullptr) {
      const auto read = http::ReadBundle(current_->certificate_pem);
      if (!read.empty()) expiry_->Set(static_cast<double>(absl::ToUnixSeconds(read[0].not_after)));
    }
  }
  return !outcome.ok() || !written.ok() ? kRetry : outcome->look_again;
}

}  // namespace tf::operators
