#include "operator/license_preflight.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "license/test_licenses.h"
#include "operator/license_status.h"

namespace tf::operators {
namespace {

using Values = std::map<std::string, std::string>;
using Kind = Reference::Kind;

const absl::Time kBuild = license::At("2026-11-01T00:00:00Z");
const absl::Time kMay = license::At("2027-05-01T00:00:00Z");

// Secrets and ConfigMaps by "Secret/name".
ValuesReader Reader(std::map<std::string, Values> objects) {
  return [objects = std::move(objects)](Kind kind, const std::string& name) -> absl::StatusOr<std::optional<Values>> {
    const auto found = objects.find(absl::StrCat(KindName(kind), "/", name));
    if (found == objects.end()) return std::nullopt;
    return found->second;
  };
}

FoundLicense Find(std::string_view container, const std::map<std::string, Values>& objects = {}) {
  const auto pod_template =
      kube::ParseJson(absl::StrCat(R"({"template": {"spec": {"containers": [{"name": "other"}, )",
                                   absl::string_view(container.data(), container.size()), "]}}}"));
  EXPECT_TRUE(pod_template.ok()) << pod_template.status();
  const auto found = FindLicense(*pod_template, "apps", Reader(objects));
  EXPECT_TRUE(found.ok()) << found.status();
  return *found;
}

TEST(FindLicense, LiteralValues) {
  const FoundLicense found = Find(R"({"name": "tensorfusion-worker", "env": [
      {"name": "TF_ENABLE_LOG", "value": "1"}, {"name": "TF_LICENSE", "value": "text"},
      {"name": "TF_LICENSE_SIGN", "value": "sign"}]})");
  EXPECT_EQ(found, (FoundLicense{"text", "sign"}));
}

TEST(FindLicense, OfASecretByKeyAndAsAWhole) {
  const std::map<std::string, Values> objects = {
      {"Secret/lic", {{"text", "T"}, {"sign", "S"}}},
      {"Secret/env", {{"LICENSE", "from"}, {"LICENSE_SIGN", "env"}}},
  };
  EXPECT_EQ(Find(R"({"name": "tensorfusion-worker", "env": [
      {"name": "TF_LICENSE", "valueFrom": {"secretKeyRef": {"name": "lic", "key": "text"}}},
      {"name": "TF_LICENSE_SIGN", "valueFrom": {"secretKeyRef": {"name": "lic", "key": "sign"}}}]})",
                 objects),
            (FoundLicense{"T", "S"}));
  EXPECT_EQ(
      Find(R"({"name": "tensorfusion-worker", "envFrom": [{"prefix": "TF_", "secretRef": {"name": "env"}}]})", objects),
      (FoundLicense{"from", "env"}));
  // As the kubelet does it: env goes before envFrom, and what comes later before what came earlier.
  EXPECT_EQ(Find(R"({"name": "tensorfusion-worker", "envFrom": [{"prefix": "TF_", "secretRef": {"name": "env"}}],
      "env": [{"name": "TF_LICENSE", "value": "first"}, {"name": "TF_LICENSE", "value": "last"}]})",
                 objects),
            (FoundLicense{"last", "env"}));
}

TEST(FindLicense, AbsentIsNotEmpty) {
  EXPECT_TRUE(Find(R"({"name": "tensorfusion-worker"})").absent());
  EXPECT_FALSE(Find(R"({"name": "tensorfusion-worker", "env": [{"name": "TF_LICENSE", "value": ""}]})").absent());
  // A container of another name, among several, is not the worker.
  EXPECT_TRUE(Find(R"({"name": "worker", "env": [{"name": "TF_LICENSE", "value": "x"}]})").absent());
}

TEST(FindLicense, WhatIsMissingIsNamed) {
  const auto find = [](std::string_view optional, const std::map<std::string, Values>& objects) {
    const auto pod_template = kube::ParseJson(
        absl::StrCat(R"({"template": {"spec": {"containers": [{"name": "w", "env": [{"name": "TF_LICENSE",
            "valueFrom": {"secretKeyRef": {"name": "lic", "key": "text")",
                     absl::string_view(optional.data(), optional.size()), "}}}]}]}}}"));
    return FindLicense(*pod_template, "apps", Reader(objects));
  };
  EXPECT_EQ(find("", {}).status().message(), "Secret apps/lic is missing: the worker template references it");
  EXPECT_EQ(find("", {{"Secret/lic", {}}}).status().message(),
            "Secret apps/lic has no key 'text': the worker template references it");
  EXPECT_EQ(find(R"(, "optional": true)", {})->text, "");
}

TEST(FindLicense, WhatCannotBeReadIsAnError) {
  const auto pod_template = kube::ParseJson(R"({"template": {"spec": {"containers": [{"name": "tensorfusion-worker",
      "env": [{"name": "TF_LICENSE", "valueFrom": {"secretKeyRef": {"name": "lic", "key": "text"}}}]}]}}})");
  const auto found =
      FindLicense(*pod_template, "apps", [](Kind, const std::string&) -> absl::StatusOr<std::optional<Values>> {
        return absl::UnavailableError("Secret apps/lic cannot be read");
      });
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
}

LicenseCheck Check(const license::Issued& issued, absl::Time now, const std::vector<std::string>& gpus = {}) {
  return CheckLicense({issued.text, issued.signature}, now, gpus, license::TestRing(), kBuild);
}

std::string Code(const LicenseCheck& check) {
  return check.refusal ? std::string(license::ReasonCode(check.refusal->reason)) : "passed";
}

TEST(CheckLicense, SaysWhatAWorkerWouldSay) {
  const license::Issued good = license::IssueForTest(license::MinimalLicense());
  license::License other = license::MinimalLicense();
  other.id = "lic-8888";
  const license::Issued another = license::IssueForTest(other);

  EXPECT_EQ(Code(Check(good, kMay)), "passed");
  EXPECT_EQ(Code(Check({good.text, another.signature}, kMay)), "bad_signature");
  EXPECT_EQ(Code(Check({good.text, ""}, kMay)), "missing_signature");
  EXPECT_EQ(Code(Check({"nonsense", good.signature}, kMay)), "malformed_text");
  EXPECT_EQ(Code(Check(good, license::At("2028-01-01T00:00:00Z"))), "expired");
}

TEST(CheckLicense, BindingIsJudgedWhereCardsAreKnown) {
  const license::Issued bound = license::IssueForTest(license::FullLicense());
  EXPECT_EQ(Code(Check(bound, kMay)), "passed");
  EXPECT_EQ(Code(Check(bound, kMay, {license::kGpuA})), "passed");
  EXPECT_EQ(Code(Check(bound, kMay, {license::kGpuA, license::kGpuC})), "gpu_not_licensed");
}

NamespaceLicense In(std::string ns, LicenseCheck check) { return {.ns = std::move(ns), .check = std::move(check)}; }

LicenseReport Report(const std::vector<NamespaceLicense>& licenses, absl::Time now,
                     const std::optional<api::LicenseStatus>& before = {}, int cards = 2) {
  return ReportLicense(licenses, before, cards, {{"running", 3}}, now);
}

TEST(ReportLicense, StatesOverALifeTime) {
  license::License license = license::MinimalLicense();
  license.grace_days = 2;
  const license::Issued issued = license::IssueForTest(license);
  struct Row {
    const char* now;
    const char* state;
    const char* condition;
    const char* next_look;
  };
  const Row rows[] = {
      {"2027-05-01T00:00:00Z", "valid", "True", "2027-10-31T00:00:00Z"},
      {"2027-10-31T00:00:00Z", "expiring", "True", "2027-11-16T00:00:00Z"},
      {"2027-11-16T00:00:00Z", "expiring", "True", "2027-11-23T00:00:00Z"},
      {"2027-11-23T00:00:00Z", "expiring", "True", "2027-11-29T00:00:00Z"},
      {"2027-11-29T00:00:00Z", "expiring", "True", "2027-11-30T00:00:00Z"},
      {"2027-11-30T00:00:00Z", "grace", "True", "2027-12-01T00:00:00Z"},
      {"2027-12-01T00:00:00Z", "grace", "True", "2027-12-02T00:00:00Z"},
      {"2027-12-02T00:00:00Z", "expired", "False", ""},
  };
  std::optional<api::LicenseStatus> before;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.now);
    const absl::Time now = license::At(row.now);
    const LicenseReport report = Report({In("", Check(issued, now))}, now, before);
    EXPECT_EQ(report.status->state, row.state);
    EXPECT_EQ(report.condition->status, row.condition);
    if (*row.next_look == '\0') {
      EXPECT_EQ(report.next_look, absl::InfiniteFuture());
    } else {
      EXPECT_EQ(license::FormatInstant(report.next_look), row.next_look);
    }
    // Each warning is told when its time has come, and not again.
    EXPECT_TRUE(report.tell);
    EXPECT_FALSE(Report({In("", Check(issued, now))}, now, report.status).tell);
    EXPECT_EQ(report.warning, std::string(row.state) != "valid");
    EXPECT_EQ(report.status->workers.at("running"), 3);
    before = report.status;
  }
}

TEST(ReportLicense, TheWorstNamespaceIsShownAndNamed) {
  const license::Issued good = license::IssueForTest(license::MinimalLicense());
  const LicenseReport report =
      Report({In("a", Check(good, kMay)), In("b", Check({good.text, std::string(86, 'A')}, kMay))}, kMay);
  EXPECT_EQ(report.status->state, "rejected");
  EXPECT_EQ(report.status->reason, "bad_signature");
  EXPECT_TRUE(report.status->message.starts_with("namespace b: ")) << report.status->message;
  EXPECT_EQ(report.condition->status, "False");
}

TEST(ReportLicense, WhatIsRefusedLeavesTheFactsOfWhatRuns) {
  const license::Issued good = license::IssueForTest(license::MinimalLicense());
  const LicenseReport first = Report({In("", Check(good, kMay))}, kMay);
  const LicenseReport second = Report({In("", Check({good.text, std::string(86, 'A')}, kMay))}, kMay, first.status);
  EXPECT_EQ(second.status->state, "rejected");
  EXPECT_EQ(second.status->id, "lic-7f3a");
  EXPECT_TRUE(second.tell);
}

TEST(ReportLicense, MoreCardsThanAllowedIsSaidAndStopsNobody) {
  license::License license = license::MinimalLicense();
  license.max_gpus = 4;
  const LicenseReport report = Report({In("", Check(license::IssueForTest(license), kMay))}, kMay, {}, 5);
  EXPECT_EQ(report.status->state, "valid");
  EXPECT_EQ(report.status->maxGPUs, 4);
  EXPECT_EQ(report.status->licensedGPUs, 5);
  EXPECT_EQ(report.status->message, "5 GPUs are in use and the licence allows 4");
  EXPECT_FALSE(ObjectionOf(In("", Check(license::IssueForTest(license), kMay))).has_value());
}

TEST(ReportLicense, AbsentAndUnreadable) {
  const LicenseReport absent = Report({{.absent = true}}, kMay);
  EXPECT_EQ(absent.status->state, "missing");
  EXPECT_EQ(absent.status->reason, "missing_text");
  EXPECT_FALSE(absent.tell);
  const NamespaceLicense no_secret{.ns = "a", .unreadable = absl::UnavailableError("Secret a/lic is missing")};
  EXPECT_EQ(Report({no_secret}, kMay).status->message, "Secret a/lic is missing");
  EXPECT_FALSE(ObjectionOf(no_secret).has_value());
  EXPECT_FALSE(Report({}, kMay).status.has_value());
}

// Whatever is wrong with a licence, neither string is in what people read.
TEST(ReportLicense, NeverShowsTextOrSignature) {
  const license::Issued good = license::IssueForTest(license::FullLicense());
  const std::string wrong(86, 'Q');
  const std::vector<license::Issued> pairs = {good,
                                              {good.text, wrong},
                                              {good.text + "x", good.signature},
                                              {"tf1;kid=nobody;id=secret-id", good.signature},
                                              {"some-secret-words", good.signature},
                                              {good.text, "some-secret-words"},
                                              {"", good.signature}};
  for (const license::Issued& pair : pairs) {
    for (const absl::Time now : {kMay, license::At("2029-01-01T00:00:00Z"), license::At("2026-01-01T00:00:00Z")}) {
      const NamespaceLicense found = In("ns", Check(pair, now, {license::kGpuC}));
      const LicenseReport report = Report({found}, now);
      const std::string shown = absl::StrCat(report.status->message, report.status->reason, report.condition->message,
                                             report.event_text, ObjectionOf(found) ? ObjectionOf(found)->text : "");
      for (const std::string& secret : {good.text, good.signature, wrong, std::string("some-secret-words"),
                                        std::string("secret-id"), std::string("customer=")}) {
        EXPECT_EQ(shown.find(secret), std::string::npos) << shown;
      }
    }
  }
}

}  // namespace
}  // namespace tf::operators
