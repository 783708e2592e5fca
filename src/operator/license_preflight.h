// What the workers of a pod template would say to their licence, before any of them restarts. Pure.
//
// FindLicense looks for TF_LICENSE and TF_LICENSE_SIGN as the kubelet would: the environment of the worker container,
// env before envFrom, what comes later before what came earlier. CheckLicense judges them with the worker's own three
// steps. Neither text nor signature is in anything that comes out of CheckLicense.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/object.h"
#include "license/check.h"
#include "operator/references.h"

namespace tf::operators {

// The two strings of a template. Both absent: the template has no licence. Secret: never to be shown.
struct FoundLicense {
  std::optional<std::string> text = {};
  std::optional<std::string> signature = {};

  bool absent() const { return !text && !signature; }
  bool operator==(const FoundLicense&) const = default;
};

// The keys and bytes of a Secret or ConfigMap; nullopt: there is none.
using ValuesReader = std::function<absl::StatusOr<std::optional<std::map<std::string, std::string>>>(
    Reference::Kind, const std::string&)>;

// `pod_template`: {template: {spec}}, as a pool has it. The worker container is the one of that name, or else the only
// one. Errors are those of `read`; Unavailable too where what is not optional is missing: it is named, in namespace
// `ns`.
absl::StatusOr<FoundLicense> FindLicense(const kube::Json& pod_template, const std::string& ns,
                                         const ValuesReader& read);

// Does the template mention a licence at all, whether it can be read or not?
bool MentionsLicense(const kube::Json& pod_template);

struct LicenseCheck {
  std::optional<license::License> license = {};  // when the signature holds
  std::optional<license::Verdict> verdict = {};  // when a worker would start
  std::optional<license::Refusal> refusal = {};  // when it would not
  bool passed() const { return verdict.has_value(); }
};

// `gpus`: UUIDs of the cards that the workers see; none known: binding to hardware is not judged.
LicenseCheck CheckLicense(const FoundLicense& found, absl::Time now, const std::vector<std::string>& gpus,
                          const license::Keyring& keyring, absl::Time build_time);

}  // namespace tf::operators
