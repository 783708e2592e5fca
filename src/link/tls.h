// TLS 1.3 with the link key as external pre-shared key, on sockets that never raise SIGPIPE. Nobody without the key
// gets through the handshake, on either side; there are no certificates.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "link/key.h"

namespace tf::link {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

// Shared by the sockets of a client or a listener; outlives the SSL objects made from it. Thread-safe after creation.
class TlsContext {
 public:
  enum class Side { kClient, kServer };

  static absl::StatusOr<std::shared_ptr<TlsContext>> Create(const LinkKey& key, Side side);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // TLS over this non-blocking socket, before its handshake. The socket stays the caller's.
  absl::StatusOr<SslPtr> Wrap(int fd) const;

 private:
  TlsContext(const LinkKey& key, Side side) : key_(key), side_(side) {}

  static int UseSession(SSL* ssl, const EVP_MD* digest, const unsigned char** id, size_t* id_size, SSL_SESSION** out);
  static int FindSession(SSL* ssl, const unsigned char* id, size_t id_size, SSL_SESSION** out);
  static SSL_SESSION* NewSession(SSL* ssl);

  LinkKey key_;
  const Side side_;
  SSL_CTX* context_ = nullptr;
  BIO_METHOD* socket_method_ = nullptr;
};

}  // namespace tf::link
