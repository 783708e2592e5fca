#include "link/tls.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace tf::link {
namespace {

constexpr std::string_view kIdentity = "tensor-fusion";
constexpr unsigned char kCipher[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int SocketWrite(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(SocketOf(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int SocketRead(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(SocketOf(bio), data, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long SocketControl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

}  // namespace

SSL_SESSION* TlsContext::NewSession(SSL* ssl) {
  const auto* self = static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(self->key_.bytes.data()),
                                  self->key_.bytes.size()) != 1 ||
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int TlsContext::UseSession(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_size, SSL_SESSION** out) {
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *id_size = kIdentity.size();
  *out = NewSession(ssl);
  return *out != nullptr ? 1 : 0;
}

int TlsContext::FindSession(SSL* ssl, const unsigned char* id, size_t id_size, SSL_SESSION** out) {
  *out = nullptr;
  if (id_size != kIdentity.size() || std::memcmp(id, kIdentity.data(), id_size) != 0) return 1;
  *out = NewSession(ssl);
  return *out != nullptr ? 1 : 0;
}

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::Create(const LinkKey& key, Side side) {
  // OpenSSL would install an exit handler and read a configuration file; a guest in a foreign process does neither.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  std::shared_ptr<TlsContext> self(new TlsContext(key, side));
  self->context_ = SSL_CTX_new(side == Side::kClient ? TLS_client_method() : TLS_server_method());
  self->socket_method_ = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "link socket");
  SSL_CTX* context = self->context_;
  BIO_METHOD* method = self->socket_method_;
  if (context == nullptr || method == nullptr || BIO_meth_set_write(method, SocketWrite) != 1 ||
      BIO_meth_set_read(method, SocketRead) != 1 || BIO_meth_set_ctrl(method, SocketControl) != 1 ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 || SSL_CTX_set_num_tickets(context, 0) != 1) {
    ERR_clear_error();
    return absl::InternalError("cannot set up TLS 1.3 with the link key: this OpenSSL lacks it");
  }
  SSL_CTX_set_app_data(context, self.get());
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_quiet_shutdown(context, 1);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (side == Side::kClient) {
    // A server that answers with a certificate in place of the key fails verification: no issuer is trusted.
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_use_session_callback(context, UseSession);
  } else {
    SSL_CTX_set_psk_find_session_callback(context, FindSession);
  }
  return self;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
  BIO_meth_free(socket_method_);
  OPENSSL_cleanse(key_.bytes.data(), key_.bytes.size());
}

absl::StatusOr<SslPtr> TlsContext::Wrap(int fd) const {
  SslPtr ssl(SSL_new(context_));
  BIO* bio = BIO_new(socket_method_);
  if (ssl == nullptr || bio == nullptr) {
    BIO_free(bio);
    return absl::ResourceExhaustedError("no memory for TLS");
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  if (side_ == Side::kClient) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return ssl;
}

}  // namespace tf::link
