// Certificates for tests: an authority and what it signs, made in a millisecond (P-256), valid for a day or as told.
// Ends the test program when OpenSSL fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tf::http {

struct TestPair {
  std::string certificate_pem;
  std::string key_pem;
};

struct TestSubject {
  std::string common_name = "test";
  std::vector<std::string> organisations = {};
  std::vector<std::string> names = {};  // "DNS:localhost", "IP:127.0.0.1"
  absl::Time not_before = absl::Now() - absl::Hours(1);
  absl::Time not_after = absl::Now() + absl::Hours(24);
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& common_name = "test authority");
  ~TestAuthority();
  const std::string& pem() const { return pem_; }
  // For servers and clients.
  TestPair Sign(const TestSubject& subject) const;
  // For 127.0.0.1 and localhost.
  TestPair SignLoopback() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string pem_;
};

}  // namespace tf::http
