// The worker's licence check: once, at start, before any GPU is opened and without the network.
//
// It reads TF_LICENSE and TF_LICENSE_SIGN, remembers the time of the last accepted start of this node, and says what
// the worker prints: result.line on standard error, always when refused, and when passed only with TF_ENABLE_LOG=1.
//
//   GateInputs inputs;
//   inputs.env = ProcessEnv();
//   inputs.now = absl::Now();
//   inputs.list_gpus = [] { ...UUIDs as NVML prints them... };   // called only for a licence bound to GPUs
//   FileTimeStore store(TimeStorePath(inputs.env, geteuid() == 0));
//   inputs.time_store = &store;
//   const GateResult result = CheckWorkerLicense(inputs);
//   if (!result.passed) { print result.line; return result.exit_status; }
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "license/builtin.h"
#include "license/check.h"
#include "license/keys.h"
#include "license/license.h"

namespace tf::license {

inline constexpr int kRefusedExitStatus = 78;  // EX_CONFIG of sysexits.h

using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;
EnvLookup ProcessEnv();

// Where a node keeps the time of its last accepted licence.
class TimeStore {
 public:
  virtual ~TimeStore() = default;
  // nullopt when nothing is stored; an error when something is there that is no time.
  virtual absl::StatusOr<std::optional<TrustedTime>> Load() = 0;
  virtual absl::Status Save(absl::Time time) = 0;
};

// A file with one line such as 2027-11-30T00:00:00Z.
class FileTimeStore : public TimeStore {
 public:
  explicit FileTimeStore(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<std::optional<TrustedTime>> Load() override;
  absl::Status Save(absl::Time time) override;

 private:
  std::string path_;
};

// TF_LICENSE_STATE; else license-time in the folder tensor-fusion of XDG_STATE_HOME, of /var/lib (root), or of
// ~/.local/state.
std::string TimeStorePath(const EnvLookup& env, bool is_root);

struct GateInputs {
  EnvLookup env;
  absl::Time now;
  std::function<absl::StatusOr<std::vector<std::string>>()> list_gpus;
  TimeStore* time_store = nullptr;  // not owned; without it no time is remembered
  const Keyring* keyring = &BuiltinKeyring();
  absl::Time build_time = BuildTime();
};

struct GateResult {
  bool passed = false;
  int exit_status = kRefusedExitStatus;  // 0 when passed
  std::string line;                      // "License verification passed: ..." or "License verification failed: ..."
  std::vector<std::string> warnings;     // for the log: grace, a stored time that cannot be read or written
  std::optional<Reason> reason;          // when refused
  std::optional<License> license;        // when passed
  std::optional<Verdict> verdict;        // when passed
};

GateResult CheckWorkerLicense(const GateInputs& inputs);

}  // namespace tf::license
