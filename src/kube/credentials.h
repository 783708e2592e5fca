// What a Client shows the API server: certificates and a token, read again when they may have changed.
//
// Files are read at most once a minute, and so much before that a token of a pod never runs out in use; a file that is
// missing, empty or broken leaves what was read last. A token that was refused is dropped and read again at once.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "http/cancel.h"
#include "http/client.h"
#include "kube/config.h"

namespace tf::kube {

class Credentials {
 public:
  explicit Credentials(std::shared_ptr<const Config> config);

  struct Shown {
    std::shared_ptr<const http::TlsSettings> tls;
    std::string authorization = {};  // of the header; "": none
    uint64_t version = 0;            // grows with each change
  };
  // Runs the exec plugin when there is one and its last answer ran out: at most until `limit`.
  absl::StatusOr<Shown> Get(absl::Duration limit, http::Cancel* cancel);

  // The server answered 401 to `shown`. True: there may be something else to show, so try again.
  bool Refused(const Shown& shown);

 private:
  absl::Status ReadFiles();
  absl::Status RunPlugin(absl::Duration limit, http::Cancel* cancel);
  void Publish();

  const std::shared_ptr<const Config> config_;
  Clock& clock_;

  std::mutex mutex_;
  Shown shown_;
  absl::Duration next_read_ = -absl::InfiniteDuration();
  std::string ca_pem_;
  std::string certificate_pem_;
  std::string key_pem_;
  std::string token_;
  // Of the plugin: what it gave, and until when.
  bool plugin_ran_ = false;
  std::string plugin_token_;
  std::string plugin_certificate_;
  std::string plugin_key_;
  absl::Time plugin_expiry_ = absl::InfiniteFuture();
};

}  // namespace tf::kube
