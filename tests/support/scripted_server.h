// An HTTP/1.1 server that says exactly what a test tells it to, byte by byte, over TCP or TLS on loopback.
//
// The script runs on a thread for each connection, once for each request; what it does not answer stays open until the
// script returns, then the connection is cut. Requests of several connections run side by side: a script guards what it
// shares. The destructor ends all connections and waits for their threads.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/wire.h"

namespace tf::testing {

struct ScriptedRequest {
  std::string method = {};
  std::string target = {};  // as sent
  std::string path = {};
  std::map<std::string, std::string> query = {};
  HttpHead head = {};
  std::string body = {};
  int number = 0;  // among all of this server, from 1

  std::string Query(const std::string& name) const;  // "": none
  bool IsWatch() const;                              // watch=1 or true
};

class Answer {
 public:
  explicit Answer(Wire& wire) : wire_(wire) {}

  using Headers = std::vector<std::pair<std::string, std::string>>;

  // A whole answer.
  bool Send(int status, std::string_view body, const Headers& more = {});
  // A streamed one: head, chunks, end.
  bool Begin(int status = 200, const Headers& more = {});
  bool Chunk(std::string_view bytes);
  bool End();
  // Sends nothing more until the peer goes or the server ends.
  void Hold();
  void Cut();                        // RST
  void Close();                      // FIN, wherever the answer is
  bool Raw(std::string_view bytes);  // exactly these; the connection is not used again
  Wire& wire() { return wire_; }

  bool complete() const { return complete_; }

 private:
  Wire& wire_;
  bool complete_ = false;  // the connection may be used for the next request
};

class ScriptedServer {
 public:
  using Script = std::function<void(const ScriptedRequest& request, Answer& answer)>;

  explicit ScriptedServer(Script script, bool tls = false);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url() const;
  const std::string& ca_pem() const { return ca_pem_; }  // "" without TLS

  int64_t requests() const { return requests_; }
  int64_t connections() const { return accepted_; }
  int64_t open_connections() const { return open_; }
  // Cuts all connections and takes no new one until Up: connection refused.
  void Down();
  void Up();

 private:
  struct Connection {
    std::unique_ptr<Wire> wire;
    std::atomic<bool> done = false;
    std::thread thread;
  };

  void Listen();
  void AcceptAll();
  void Serve(Wire& wire);

  Script script_;
  bool tls_;
  std::string ca_pem_;
  SSL_CTX* context_ = nullptr;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::thread acceptor_;
  std::mutex mutex_;  // for connections_
  std::list<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> ending_ = false;
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> accepted_ = 0;
  std::atomic<int64_t> open_ = 0;
};

}  // namespace tf::testing
