#include "operator/license_status.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

using namespace license_state;

constexpr int kWarningDays[] = {30, 14, 7, 1};

struct Judged {
  std::string state = {};
  std::string reason = {};
  std::string message = {};
  const license::License* license = nullptr;
  absl::Time next_look = absl::InfiniteFuture();
};

int Badness(const std::string& state) {
  return static_cast<int>(std::find(std::begin(kAll), std::end(kAll), state) - std::begin(kAll));
}

Judged Judge(const NamespaceLicense& found, absl::Time now) {
  if (!found.unreadable.ok()) return {kMissing, "secret_unavailable", std::string(found.unreadable.message())};
  if (found.absent) {
    return {kMissing, std::string(license::ReasonCode(license::Reason::kMissingText)),
            "the worker template sets no TF_LICENSE: set it and TF_LICENSE_SIGN in "
            "componentConfig.worker.podTemplate"};
  }
  Judged judged;
  if (found.check.license) judged.license = &*found.check.license;
  if (!found.check.passed()) {
    const license::Refusal& refusal = *found.check.refusal;
    judged.state = refusal.reason == license::Reason::kExpired ? kExpired : kRejected;
    judged.reason = std::string(license::ReasonCode(refusal.reason));
    judged.message = refusal.text;
    if (refusal.reason == license::Reason::kNotYetValid && judged.license->not_before) {
      judged.next_look = *judged.license->not_before;
    }
    return judged;
  }
  const license::License& license = *judged.license;
  const std::string date = license::FormatInstant(license.expires);
  if (found.check.verdict->state == license::State::kGrace) {
    const int left = found.check.verdict->grace_days_left;
    judged.state = kGrace;
    judged.message = absl::StrCat("expired ", date, "; grace: ", left,
                                  " days left, then workers that start are refused. Install a renewed licence");
    judged.next_look = license.expires + absl::Hours(24) * (license.grace_days - left + 1);
    return judged;
  }
  const absl::Duration left = license.expires - now;
  judged.state = kValid;
  judged.next_look = license.expires;
  // From many days to few: the last one that has come is the warning, the first that has not is the next look.
  for (int days : kWarningDays) {
    if (left > absl::Hours(24) * days) {
      judged.next_look = license.expires - absl::Hours(24) * days;
      break;
    }
    judged.state = kExpiring;
    judged.message = absl::StrCat("expires ", date, ", in ", days, days == 1 ? " day" : " days",
                                  " or less. Install a renewed licence before");
  }
  return judged;
}

std::string EventReason(const std::string& state) {
  if (state == kValid) return "LicenseValid";
  if (state == kExpiring) return "LicenseExpiring";
  if (state == kGrace) return "LicenseInGrace";
  if (state == kMissing) return "LicenseMissing";
  if (state == kExpired) return "LicenseExpired";
  return "LicenseRejected";
}

}  // namespace

std::optional<LicenseObjection> ObjectionOf(const NamespaceLicense& license) {
  if (!license.unreadable.ok() || license.absent || license.check.passed()) return std::nullopt;
  return LicenseObjection{std::string(license::ReasonCode(license.check.refusal->reason)),
                          absl::StrCat(license.ns.empty() ? "" : absl::StrCat("namespace ", license.ns, ": "),
                                       license.check.refusal->text)};
}

LicenseReport ReportLicense(const std::vector<NamespaceLicense>& licenses,
                            const std::optional<api::LicenseStatus>& before, int cards,
                            const std::map<std::string, int32_t>& workers, absl::Time now) {
  LicenseReport report;
  if (licenses.empty()) return report;
  Judged worst;
  std::string where;
  for (const NamespaceLicense& one : licenses) {
    Judged judged = Judge(one, now);
    report.next_look = std::min(report.next_look, judged.next_look);
    if (!worst.state.empty() && Badness(judged.state) <= Badness(worst.state)) continue;
    worst = std::move(judged);
    where = one.ns;
  }
  api::LicenseStatus status;
  status.state = worst.state;
  status.reason = worst.reason;
  status.message = worst.message;
  if (!where.empty() && licenses.size() > 1 && !status.message.empty()) {
    status.message = absl::StrCat("namespace ", where, ": ", status.message);
  }
  if (worst.license != nullptr) {
    status.id = worst.license->id;
    status.edition = worst.license->edition;
    status.customer = worst.license->customer;
    status.expires = api::Time(worst.license->expires);
    if (worst.license->max_gpus) status.maxGPUs = *worst.license->max_gpus;
  } else if (before && worst.state == kRejected) {
    // What is refused cannot be read; the workers that run still have the one before.
    status.id = before->id;
    status.edition = before->edition;
    status.customer = before->customer;
    status.expires = before->expires;
    status.maxGPUs = before->maxGPUs;
  }
  status.licensedGPUs = cards;
  status.workers = workers;
  if (status.maxGPUs && cards > *status.maxGPUs && (worst.state == kValid || worst.state == kExpiring)) {
    status.message = absl::StrCat(status.message, status.message.empty() ? "" : "; ", cards,
                                  " GPUs are in use and the licence allows ", *status.maxGPUs);
  }

  const bool good = worst.state == kValid || worst.state == kExpiring || worst.state == kGrace;
  api::Condition condition;
  condition.type = kLicenseValidCondition;
  condition.status = good ? "True" : "False";
  condition.reason = EventReason(worst.state);
  condition.message = status.reason.empty() ? status.message : absl::StrCat(status.reason, ": ", status.message);

  const bool same = before && before->state == status.state && before->reason == status.reason &&
                    before->message == status.message && before->id == status.id && before->expires == status.expires;
  // A pool that starts without a licence is told of in its condition; that is no news.
  report.tell = !same && !(worst.state == kMissing && !before);
  report.warning = worst.state != kValid || !status.message.empty();
  report.event_reason = condition.reason;
  report.event_text = condition.message;
  if (report.event_text.empty()) {
    report.event_text = absl::StrCat("licence ", status.id, ", edition ", status.edition, ", expires ",
                                     license::FormatInstant(worst.license->expires));
  }
  report.status = std::move(status);
  report.condition = std::move(condition);
  return report;
}

}  // namespace tf::operators
