// A server's certificate and key in files that somebody renews while we run, such as a mounted Secret.
//
// The folder of the files is watched (a Secret's mount swaps a symbolic link in it, so the files themselves tell
// nothing) and looked at every ten seconds besides. What is read counts only when both parse and belong together; until
// then, and when a file is missing or half written, the last good pair stays in use. Metrics are certwatcher's.
// Thread-safe; a thread of its own ("certificates").
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/metrics.h"

namespace tf::kube {

struct CertificatePair {
  std::string certificate_pem = {};  // with its chain
  std::string key_pem = {};
};

// InvalidArgument: one of the two cannot be read, or they do not belong together.
absl::Status CheckPair(const CertificatePair& pair);

class CertificateFiles {
 public:
  struct Options {
    std::string certificate_path = {};
    std::string key_path = {};
    absl::Duration look_every = absl::Seconds(10);
    Metrics* metrics = nullptr;  // none: nobody looks
  };

  // Reads them once; an error when there is no good pair.
  static absl::StatusOr<std::unique_ptr<CertificateFiles>> Open(Options options);
  ~CertificateFiles();

  std::shared_ptr<const CertificatePair> current() const;

  // Reads the files now, as the thread does by itself.
  absl::Status Read();

 private:
  explicit CertificateFiles(Options options);
  void Run();

  const Options options_;
  std::unique_ptr<Metrics> own_metrics_;
  prometheus::Counter& reads_;
  prometheus::Counter& errors_;
  int stop_fd_ = -1;     // an eventfd
  int changes_fd_ = -1;  // inotify; -1: none to be had
  mutable std::mutex mutex_;
  std::shared_ptr<const CertificatePair> current_;
  std::thread thread_;
};

}  // namespace tf::kube
