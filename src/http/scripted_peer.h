// A server that says exactly what a test tells it to, byte by byte: the script gets each connection, in the order in
// which they come, on the peer's thread. No HTTP in here, apart from reading a request's bytes to their end.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tf::http {

class ScriptedPeer;

class ScriptedConnection {
 public:
  ScriptedConnection(int fd, ScriptedPeer& peer);
  ~ScriptedConnection();
  ScriptedConnection(const ScriptedConnection&) = delete;
  ScriptedConnection& operator=(const ScriptedConnection&) = delete;

  // One request, with a body of Content-Length bytes; "" when the client closed before its end.
  std::string ReadRequest();
  // False when the client is gone.
  bool Send(std::string_view bytes);
  // A whole answer with Content-Length.
  bool Answer(int status, std::string_view body, std::string_view more_headers = "");
  // Blocks until the client closes.
  void AwaitClose();
  // The client sees a reset instead of an orderly end.
  void Reset();

 private:
  void Close();

  int fd_;
  ScriptedPeer& peer_;
  std::string received_;
};

class ScriptedPeer {
 public:
  // `script` gets the number of the connection, from 0; the connection is closed when it returns.
  explicit ScriptedPeer(std::function<void(int, ScriptedConnection&)> script);
  ~ScriptedPeer();  // cuts the connection that the script is at, and waits for it

  uint16_t port() const { return port_; }
  std::string url(std::string_view path = "/") const;

 private:
  friend ScriptedConnection;

  int listener_;
  uint16_t port_ = 0;
  int stop_;
  std::mutex mutex_;
  bool stopped_ = false;
  int current_ = -1;
  std::thread thread_;
};

}  // namespace tf::http
