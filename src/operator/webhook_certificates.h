// The certificate of our admission webhooks, without external tools: the operator is its own authority.
//
// A Secret holds the authority: `ca.crt`, all authorities that are to be trusted, the newest first, and `ca.key`, the
// newest one's key. Each replica signs a serving certificate with it that never leaves its memory, and keeps the
// caBundle of the webhook configurations right: at least what the Secret says. The authority lives for a year and is
// replaced when two thirds of that are over, a serving certificate for 30 days.
//
// Webhook object and replicas agree at every second:
//  - A new authority is added to the bundle; the old ones leave it when they expire.
//  - A replica goes on serving what it has until the new authority has been in the configuration for `settle`.
//  - A replica without a certificate is not ready before the configuration knows its authority.
//  - What somebody takes away from Secret or configuration is put back at once: both are watched.
// Whoever comes first writes; resource versions see to it that of several replicas one wins and the others follow.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "http/certificates.h"
#include "kube/certificate_files.h"
#include "kube/manager.h"
#include "kube/object.h"

namespace tf::operators {

inline const kube::Resource kMutatingWebhookConfiguration{
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false};
inline const kube::Resource kValidatingWebhookConfiguration{
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false};

// What is right now, decided from what is there. One for each replica; not thread-safe; does no I/O.
class WebhookAuthority {
 public:
  struct Options {
    kube::Key secret = {};
    std::vector<std::string> hosts = {};  // names and addresses under which the API server calls us
    std::string url = {};                 // "https://127.1.0.5:9443": what webhooks are to be called at; "": a Service
    absl::Duration authority_life = absl::Hours(24 * 365);
    absl::Duration serving_life = absl::Hours(24 * 30);
    absl::Duration settle = absl::Seconds(60);
  };
  struct View {
    kube::ObjectPtr secret = {};                       // null: there is none
    std::vector<kube::ObjectPtr> configurations = {};  // null: there is none, and nobody is to be told of certificates
    bool leads = false;                                // only the leader writes `url`
  };
  // What to write, and when to look again if nothing happens before. Where the Secret is to be written, nothing else
  // is.
  struct Outcome {
    std::optional<kube::Json> secret = {};  // to create when there is none, to update otherwise
    // As many as there are in the view: strategic merge patches.
    std::vector<std::optional<kube::Json>> configurations = {};
    absl::Duration look_again = absl::Hours(1);
    absl::Status ready = {};  // OK: the API server, if it calls us, will trust us
  };

  explicit WebhookAuthority(Options options);

  absl::StatusOr<Outcome> Look(const View& view, absl::Time now, absl::Duration monotonic);

  // Null before there is one.
  std::shared_ptr<const kube::CertificatePair> serving() const { return serving_; }

 private:
  // What is to be written to one configuration so that its webhooks trust `trusted`; whether they already do.
  struct Carried {
    std::optional<kube::Json> patch = {};
    bool newest = true;   // all of them know the newest authority
    bool serving = true;  // and the one that we serve with
  };
  Carried LookAt(const kube::Json& configuration, const std::vector<http::BundledCertificate>& trusted, bool leads,
                 absl::Time now) const;
  absl::Status Sign(const std::string& certificate, const std::string& key, absl::Time now);

  const Options options_;
  std::shared_ptr<const kube::CertificatePair> serving_;
  std::string signer_ = {};  // the certificate of the authority behind serving_
  absl::Time serving_from_;
  absl::Time serving_until_;
  // Since when the configuration has had the Secret's authority, as far as we have seen.
  std::string carried_ = {};
  absl::Duration carried_since_ = absl::ZeroDuration();
};

// Brings WebhookAuthority together with the API server. Thread-safe; a thread of its own ("webhook certs").
//
//   WebhookCertificates certificates({...});
//   manager_options.webhook.certificate = [&] { return certificates.current(); };
//   auto manager = kube::Manager::Make(manager_options);
//   certificates.AddTo(**manager);
class WebhookCertificates {
 public:
  struct Options {
    std::string secret_namespace = {};
    std::string secret_name = {};
    std::string configuration = {};           // ValidatingWebhookConfiguration
    std::string mutating_configuration = {};  // MutatingWebhookConfiguration; "": none
    std::vector<std::string> hosts = {};
    bool by_url = false;  // the first of `hosts` and the webhook's port become the webhooks' URL
    uint16_t port = 9443;
    absl::Duration settle = absl::Seconds(60);
  };

  explicit WebhookCertificates(Options options);
  ~WebhookCertificates();

  std::shared_ptr<const kube::CertificatePair> current() const;

  // Its caches, its thread (with and without leadership), and the readiness check "webhook-certificate".
  void AddTo(kube::Manager& manager);

 private:
  absl::Status Start();
  void Stop();
  void Run();
  absl::Duration LookOnce();
  void Wake();

  const Options options_;
  WebhookAuthority authority_;  // of the thread alone
  std::unique_ptr<kube::Client> client_;
  kube::Informer* secrets_ = nullptr;
  struct Configuration {
    kube::Resource resource;
    std::string name;
    kube::Informer* cache;
  };
  std::vector<Configuration> configurations_;
  Clock* clock_ = nullptr;
  prometheus::Gauge* expiry_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool woken_ = true;
  bool leads_ = false;
  absl::Status ready_ = absl::UnavailableError("there is no certificate yet");
  std::shared_ptr<const kube::CertificatePair> current_;
  std::thread thread_;
};

}  // namespace tf::operators
