#include "kube/credentials.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/process.h"
#include "kube/object.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

// A token is read again a minute after the last time, less what a call may take.
constexpr absl::Duration kReadAgain = absl::Seconds(50);
constexpr size_t kMaxCredentialFile = 1 << 20;  // bytes
constexpr size_t kMaxPluginOutput = 1 << 20;    // bytes
constexpr absl::Duration kPluginLimit = absl::Minutes(1);

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* at) const { Free(at); }
};
using Bio = std::unique_ptr<BIO, Freed<BIO, BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;

Certificate ReadCertificate(const std::string& pem) {
  Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

absl::Status CheckPair(const std::string& certificate_pem, const std::string& key_pem) {
  const Certificate certificate = ReadCertificate(certificate_pem);
  if (certificate == nullptr) return absl::InvalidArgumentError("the client certificate is no PEM certificate");
  Bio bio(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
  auto no_password = [](char*, int, int, void*) { return -1; };  // else OpenSSL asks on the terminal
  const PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr) return absl::InvalidArgumentError("the client key is no PEM private key (without a password)");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError("the client key does not belong to the client certificate");
  }
  return absl::OkStatus();
}

std::string Trimmed(const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); }

bool IsHeaderText(const std::string& text) {
  for (unsigned char c : text) {
    if (c < 0x20 || c == 0x7f) return false;
  }
  return true;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxCredentialFile);
  if (!text.ok()) return text.status();
  std::string token = Trimmed(*text);
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  if (!IsHeaderText(token)) return absl::InvalidArgumentError(absl::StrCat(path, " holds more than one line"));
  return token;
}

}  // namespace

Credentials::Credentials(std::shared_ptr<const Config> config)
    : config_(std::move(config)),
      clock_(config_->clock == nullptr ? RealClock() : *config_->clock),
      ca_pem_(config_->ca_pem),
      certificate_pem_(config_->certificate_pem),
      key_pem_(config_->key_pem),
      token_(config_->token) {}

// What cannot be read or used leaves the last good one. An error when there is none.
absl::Status Credentials::ReadFiles() {
  auto keep = [](std::string_view what, const absl::Status& why, bool have) {
    const std::string name(what);
    if (!have) return absl::UnauthenticatedError(absl::StrCat("no ", name, ": ", why.message()));
    spdlog::warn("kube: the {} is not read again, the last one stays in use: {}", name, std::string(why.message()));
    return absl::OkStatus();
  };

  if (config_->ca_pem.empty() && !config_->ca_file.empty()) {
    absl::StatusOr<std::string> pem = ReadFile(config_->ca_file, kMaxCredentialFile);
    absl::Status status = pem.status();
    if (status.ok() && ReadCertificate(*pem) == nullptr) {
      status = absl::InvalidArgumentError(absl::StrCat(config_->ca_file, " has no PEM certificate"));
    }
    if (!status.ok())
      status = keep("certificate authority", status, !ca_pem_.empty());
    else
      ca_pem_ = *std::move(pem);
    if (!status.ok()) return status;
  }

  if (!config_->certificate_file.empty() || !config_->key_file.empty()) {
    auto read = [](const std::string& pem, const std::string& file) -> absl::StatusOr<std::string> {
      if (!pem.empty()) return pem;
      return ReadFile(file, kMaxCredentialFile);
    };
    absl::StatusOr<std::string> certificate = read(config_->certificate_pem, config_->certificate_file);
    absl::StatusOr<std::string> key = read(config_->key_pem, config_->key_file);
    absl::Status status = certificate.ok() ? key.status() : certificate.status();
    if (status.ok()) status = CheckPair(*certificate, *key);
    if (!status.ok()) {
      status = keep("client certificate", status, !certificate_pem_.empty() && !key_pem_.empty());
      if (!status.ok()) return status;
    } else {
      certificate_pem_ = *std::move(certificate);
      key_pem_ = *std::move(key);
    }
  }

  if (!config_->token_file.empty()) {
    absl::StatusOr<std::string> token = ReadToken(config_->token_file);
    if (token.ok()) {
      token_ = *std::move(token);
    } else if (absl::Status status = keep("token", token.status(), !token_.empty()); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void Credentials::Publish() {
  http::TlsSettings tls{.ca_pem = ca_pem_,
                        .certificate_pem = plugin_certificate_.empty() ? certificate_pem_ : plugin_certificate_,
                        .key_pem = plugin_certificate_.empty() ? key_pem_ : plugin_key_,
                        .server_name = config_->tls_server_name,
                        .insecure = config_->insecure_skip_tls_verify};
  std::string authorization;
  if (!plugin_token_.empty()) {
    authorization = "Bearer " + plugin_token_;
  } else if (!token_.empty()) {
    authorization = "Bearer " + token_;
  } else if (!config_->username.empty()) {
    authorization = "Basic " + absl::Base64Escape(absl::StrCat(config_->username, ":", config_->password));
  }
  const bool same_tls = shown_.tls != nullptr && shown_.tls->ca_pem == tls.ca_pem &&
                        shown_.tls->certificate_pem == tls.certificate_pem && shown_.tls->key_pem == tls.key_pem;
  if (same_tls && shown_.authorization == authorization) return;
  if (!same_tls) {
    shown_.tls = std::make_shared<const http::TlsSettings>(std::move(tls));
    ++shown_.version;
  }
  shown_.authorization = std::move(authorization);
}

absl::StatusOr<Credentials::Shown> Credentials::Get(absl::Duration limit, http::Cancel* cancel) {
  std::lock_guard lock(mutex_);
  if (const absl::Duration now = clock_.Monotonic(); now >= next_read_) {
    if (absl::Status status = ReadFiles(); !status.ok()) return status;
    next_read_ = now + kReadAgain;
  }
  if (config_->exec.has_value() && (!plugin_ran_ || clock_.Now() >= plugin_expiry_)) {
    if (absl::Status status = RunPlugin(limit, cancel); !status.ok()) return status;
  }
  Publish();
  return shown_;
}

bool Credentials::Refused(const Shown& shown) {
  std::lock_guard lock(mutex_);
  if (shown_.authorization != shown.authorization || shown_.version != shown.version) return true;  // newer by now
  if (!config_->token_file.empty()) {
    // The old token is of no use any more, and the file may have a new one.
    absl::StatusOr<std::string> token = ReadToken(config_->token_file);
    const bool newer = token.ok() && *token != token_;
    if (newer) token_ = *std::move(token);
    return newer;
  }
  if (config_->exec.has_value()) {
    plugin_ran_ = false;
    return true;
  }
  return false;
}

absl::Status Credentials::RunPlugin(absl::Duration limit, http::Cancel* cancel) {
  const ExecPlugin& plugin = *config_->exec;
  auto failed = [&](absl::string_view why) {
    return absl::UnauthenticatedError(absl::StrCat("the credential plugin ", plugin.command, " ", why,
                                                   plugin.install_hint.empty() ? "" : "\n", plugin.install_hint));
  };

  Json info = {{"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) {
    Json& cluster = EnsureField(info, "spec.cluster");
    cluster = {{"server", config_->server}};
    JsonObject& fields = cluster.get_object();
    if (!config_->tls_server_name.empty()) fields["tls-server-name"] = config_->tls_server_name;
    if (config_->insecure_skip_tls_verify) fields["insecure-skip-tls-verify"] = true;
    if (!ca_pem_.empty()) fields["certificate-authority-data"] = absl::Base64Escape(ca_pem_);
    if (!config_->proxy_url.empty()) fields["proxy-url"] = config_->proxy_url;
  }

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe for a credential plugin");
  absl::Cleanup close_read = [fd = ends[0]] { close(fd); };
  absl::Cleanup close_write = [fd = ends[1]] { close(fd); };
  const int wake = eventfd(0, EFD_CLOEXEC);
  absl::Cleanup close_wake = [wake] { close(wake); };

  ProcessOptions options{.env = CurrentEnvironment(), .stdout_fd = ends[1], .stderr_fd = STDERR_FILENO};
  options.argv.push_back(plugin.command);
  options.argv.insert(options.argv.end(), plugin.args.begin(), plugin.args.end());
  auto put = [&](const std::string& name, const std::string& value) {
    std::erase_if(options.env,
                  [&](const std::string& line) { return line.compare(0, name.size() + 1, name + "=") == 0; });
    options.env.push_back(name + "=" + value);
  };
  for (const auto& [name, value] : plugin.env) put(name, value);
  put("KUBERNETES_EXEC_INFO", boost::json::serialize(info));

  absl::StatusOr<Process> process = Process::Start(options);
  if (!process.ok()) return failed(absl::StrCat("does not start: ", process.status().message()));
  std::move(close_write).Invoke();
  absl::Cleanup end = [&] {
    process->SignalGroup(SIGKILL).IgnoreError();
    process->Wait();
  };
  std::optional<http::Cancel::Waker> waker;
  if (cancel != nullptr) waker.emplace(*cancel, [wake] { eventfd_write(wake, 1); });

  const absl::Duration deadline = RealClock().Monotonic() + std::min(limit, kPluginLimit);
  std::string output;
  for (;;) {
    const absl::Duration left = deadline - RealClock().Monotonic();
    if (left <= absl::ZeroDuration()) return failed("did not end in time");
    pollfd waited[] = {{ends[0], POLLIN, 0}, {wake, POLLIN, 0}};
    const int milliseconds = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
    if (poll(waited, 2, milliseconds) < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
    if (waited[1].revents != 0) return absl::CancelledError("cancelled");
    if (waited[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(ends[0], bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.append(bytes, static_cast<size_t>(count));
    if (output.size() > kMaxPluginOutput) return failed("printed more than 1 MiB");
  }
  const std::optional<ExitStatus> status = process->Wait(deadline - RealClock().Monotonic());
  if (!status.has_value()) return failed("did not end in time");
  if (status->code != 0) return failed(absl::StrCat("failed with exit code ", status->code));

  absl::StatusOr<Json> json = ParseJson(output);
  if (!json.ok()) return failed(absl::StrCat("printed ", json.status().message()));
  if (Text(*json, "kind") != "ExecCredential" || Text(*json, "apiVersion") != plugin.api_version) {
    return failed(absl::StrCat("printed no ExecCredential of ", plugin.api_version));
  }
  std::string token(Text(*json, "status.token"));
  std::string certificate(Text(*json, "status.clientCertificateData"));
  std::string key(Text(*json, "status.clientKeyData"));
  if (token.empty() && certificate.empty()) return failed("printed neither a token nor a certificate");
  if (!IsHeaderText(token)) return failed("printed a token of more than one line");
  if (certificate.empty() != key.empty()) return failed("printed a certificate without its key, or a key alone");
  if (!certificate.empty()) {
    if (absl::Status pair = CheckPair(certificate, key); !pair.ok()) {
      return failed(absl::StrCat("printed what cannot be used: ", pair.message()));
    }
  }
  absl::Time expiry = absl::InfiniteFuture();
  if (std::string text(Text(*json, "status.expirationTimestamp")); !text.empty()) {
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, text, &expiry, &error)) {
      return failed(absl::StrCat("printed an expirationTimestamp that is no RFC 3339 time: ", error));
    }
  }
  plugin_ran_ = true;
  plugin_token_ = std::move(token);
  plugin_certificate_ = std::move(certificate);
  plugin_key_ = std::move(key);
  plugin_expiry_ = expiry;
  return absl::OkStatus();
}

}  // namespace tf::kube
