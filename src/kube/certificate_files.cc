#include "kube/certificate_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

constexpr size_t kMaxFile = 1 << 20;

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* p) const { kFree(p); }
};
using Bio = std::unique_ptr<BIO, Free<BIO, BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status CheckPair(const CertificatePair& pair) {
  Bio text(BIO_new_mem_buf(pair.certificate_pem.data(), static_cast<int>(pair.certificate_pem.size())));
  const Certificate certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  text.reset(BIO_new_mem_buf(pair.key_pem.data(), static_cast<int>(pair.key_pem.size())));
  // A key with a password would ask for it on the terminal.
  const PrivateKey key(PEM_read_bio_PrivateKey(text.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr));
  const bool match =
      certificate != nullptr && key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (certificate == nullptr) return absl::InvalidArgumentError("expected a certificate in PEM");
  if (key == nullptr) return absl::InvalidArgumentError("expected a private key in PEM, without a password");
  if (!match) return absl::InvalidArgumentError("the key is not the certificate's");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CertificateFiles>> CertificateFiles::Open(Options options) {
  std::unique_ptr<CertificateFiles> files(new CertificateFiles(std::move(options)));
  files->stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (files->stop_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  // Before the first look, so that no change falls between the two.
  files->changes_fd_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  for (const std::string& path : {files->options_.certificate_path, files->options_.key_path}) {
    if (files->changes_fd_ < 0 ||
        inotify_add_watch(files->changes_fd_, FolderOf(path).c_str(),
                          IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_ONLYDIR) < 0) {
      spdlog::warn("certificates: {} cannot be watched, looking every {}", FolderOf(path),
                   absl::FormatDuration(files->options_.look_every));
    }
  }
  if (absl::Status status = files->Read(); !status.ok()) return status;
  files->thread_ = std::thread([self = files.get()] {
    pthread_setname_np(pthread_self(), "certificates");
    self->Run();
  });
  return files;
}

CertificateFiles::CertificateFiles(Options options)
    : options_(std::move(options)),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()),
      reads_((options_.metrics != nullptr ? options_.metrics : own_metrics_.get())
                 ->Counter("certwatcher_read_certificate_total", "Looks at the certificate's files", {})),
      errors_((options_.metrics != nullptr ? options_.metrics : own_metrics_.get())
                  ->Counter("certwatcher_read_certificate_errors_total", "Looks that gave no good pair", {})) {}

CertificateFiles::~CertificateFiles() {
  if (thread_.joinable()) {
    eventfd_write(stop_fd_, 1);
    thread_.join();
  }
  if (stop_fd_ >= 0) close(stop_fd_);
  if (changes_fd_ >= 0) close(changes_fd_);
}

std::shared_ptr<const CertificatePair> CertificateFiles::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

absl::Status CertificateFiles::Read() {
  reads_.Increment();
  auto pair = std::make_shared<CertificatePair>();
  absl::Status status;
  for (auto [path, text] :
       {std::pair(&options_.certificate_path, &pair->certificate_pem), std::pair(&options_.key_path, &pair->key_pem)}) {
    absl::StatusOr<std::string> read = ReadFile(*path, kMaxFile);
    if (read.ok()) {
      *text = *std::move(read);
    } else {
      status.Update(read.status());
    }
  }
  if (status.ok()) status = CheckPair(*pair);
  if (!status.ok()) {
    errors_.Increment();
    return absl::Status(status.code(), absl::StrCat("certificate ", options_.certificate_path, ", key ",
                                                    options_.key_path, ": ", status.message()));
  }
  std::lock_guard lock(mutex_);
  if (current_ != nullptr && current_->certificate_pem != pair->certificate_pem) {
    spdlog::info("certificates: {} was renewed", options_.certificate_path);
  }
  current_ = std::move(pair);
  return absl::OkStatus();
}

void CertificateFiles::Run() {
  for (;;) {
    pollfd fds[] = {{stop_fd_, POLLIN, 0}, {changes_fd_, POLLIN, 0}};
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(options_.look_every)));
    if (fds[0].revents != 0) return;
    char events[4096];
    while (changes_fd_ >= 0 && read(changes_fd_, events, sizeof(events)) > 0) {
    }
    if (absl::Status status = Read(); !status.ok()) {
      spdlog::warn("{}; the one read before stays in use", std::string(status.message()));
    }
  }
}

}  // namespace tf::kube
