// What a pool says about the licence of its workers: status.license, the condition LicenseValid, and which warning is
// due. Pure; the texts name codes, ids and dates and never the licence itself.
//
// A template may find another licence in each namespace (Secrets are per namespace). The worst of them is shown, for it
// is the one that somebody has to look at.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/gpu_pool.h"
#include "operator/license_preflight.h"

namespace tf::operators {

inline constexpr char kLicenseValidCondition[] = "LicenseValid";
inline constexpr char kLicenseRejected[] = "LicenseRejected";  // why a rollout does not begin

// States, as status.license.state has them, from good to bad.
namespace license_state {
inline constexpr char kValid[] = "valid";
inline constexpr char kExpiring[] = "expiring";  // within 30 days
inline constexpr char kGrace[] = "grace";
inline constexpr char kMissing[] = "missing";
inline constexpr char kExpired[] = "expired";
inline constexpr char kRejected[] = "rejected";
inline constexpr const char* kAll[] = {kValid, kExpiring, kGrace, kMissing, kExpired, kRejected};
}  // namespace license_state

// What preflight found for one namespace.
struct NamespaceLicense {
  std::string ns = {};
  bool absent = false;           // the template has none
  absl::Status unreadable = {};  // a Secret or ConfigMap of it is not there
  LicenseCheck check = {};       // otherwise
};

// Why a worker that is started now would be refused: a code and a sentence; nullopt: it would not. An absent licence is
// no refusal here; a worker image that needs one says so itself.
struct LicenseObjection {
  std::string code = {};
  std::string text = {};
};
std::optional<LicenseObjection> ObjectionOf(const NamespaceLicense& license);

struct LicenseReport {
  std::optional<api::LicenseStatus> status = {};
  std::optional<api::Condition> condition = {};
  // To be told as an event, once: the state or the warning is another than the pool's status said.
  bool tell = false;
  bool warning = false;  // of what is told
  std::string event_reason = {};
  std::string event_text = {};
  absl::Time next_look = absl::InfiniteFuture();  // when time alone changes the answer
};

// `before`: status.license as it was. `cards`: cards of the nodes on which workers run. `workers`: pods by state.
LicenseReport ReportLicense(const std::vector<NamespaceLicense>& licenses,
                            const std::optional<api::LicenseStatus>& before, int cards,
                            const std::map<std::string, int32_t>& workers, absl::Time now);

}  // namespace tf::operators
