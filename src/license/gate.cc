#include "license/gate.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace tf::license {
namespace {

constexpr size_t kMaxStateBytes = 64;

GateResult Refused(const Refusal& refusal, std::vector<std::string> warnings) {
  GateResult result;
  result.reason = refusal.reason;
  result.line =
      absl::StrCat("License verification failed: ", std::string(ReasonCode(refusal.reason)), ": ", refusal.text);
  result.warnings = std::move(warnings);
  return result;
}

std::string PassLine(const License& license, bool development) {
  return absl::StrCat("License verification passed: edition=", license.edition,
                      " expires=", FormatInstant(license.expires), " id=", license.id,
                      " gpus=", license.gpus.empty() ? std::string("any") : absl::StrCat(license.gpus.size()),
                      development ? " keyring=development" : "");
}

}  // namespace

EnvLookup ProcessEnv() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

absl::StatusOr<std::optional<TrustedTime>> FileTimeStore::Load() {
  const absl::StatusOr<std::string> contents = ReadFile(path_, kMaxStateBytes);
  if (absl::IsNotFound(contents.status())) return std::nullopt;
  if (!contents.ok()) return contents.status();
  const std::optional<absl::Time> time = ParseInstant(contents->substr(0, contents->find('\n')));
  if (!time) return absl::InvalidArgumentError(absl::StrCat(path_, " holds no time; remove it"));
  return TrustedTime{*time, absl::StrCat("remove the file ", path_)};
}

absl::Status FileTimeStore::Save(absl::Time time) { return WriteFile(path_, FormatInstant(time) + "\n", 0644); }

std::string TimeStorePath(const EnvLookup& env, bool is_root) {
  const auto value = [&env](const std::string& name) { return env(name).value_or(""); };
  if (std::string path = value("TF_LICENSE_STATE"); !path.empty()) return path;
  std::string folder = value("XDG_STATE_HOME");
  if (folder.empty() && !is_root && !value("HOME").empty()) folder = value("HOME") + "/.local/state";
  if (folder.empty()) folder = "/var/lib";
  return folder + "/tensor-fusion/license-time";
}

GateResult CheckWorkerLicense(const GateInputs& inputs) {
  std::vector<std::string> warnings;
  const OrRefusal<SignedText> signed_text =
      Parse(inputs.env("TF_LICENSE").value_or(""), inputs.env("TF_LICENSE_SIGN").value_or(""));
  if (!signed_text.ok()) return Refused(signed_text.refusal(), {});
  const OrRefusal<License> license = Verify(*signed_text, *inputs.keyring);
  if (!license.ok()) return Refused(license.refusal(), {});

  KnownTimes known{inputs.build_time, std::nullopt};
  if (inputs.time_store != nullptr) {
    absl::StatusOr<std::optional<TrustedTime>> stored = inputs.time_store->Load();
    if (stored.ok()) {
      known.last_trusted = *std::move(stored);
    } else {
      warnings.push_back(
          absl::StrCat("License: the time of the last accepted start cannot be read: ", stored.status().message()));
    }
  }
  const OrRefusal<Verdict> verdict = EvaluateDates(*license, inputs.now, known);
  if (!verdict.ok()) return Refused(verdict.refusal(), std::move(warnings));
  if (!license->gpus.empty()) {
    if (const std::optional<Refusal> refusal = EvaluateGpus(*license, inputs.list_gpus())) {
      return Refused(*refusal, std::move(warnings));
    }
  }

  // Only a time at which a licence passed is remembered: a clock that ran far ahead, past every expiry, is not.
  if (inputs.time_store != nullptr && (!known.last_trusted || known.last_trusted->time < inputs.now)) {
    const absl::Status saved = inputs.time_store->Save(inputs.now);
    if (!saved.ok()) {
      warnings.push_back(
          absl::StrCat("License: the time of this start cannot be stored, so that a clock set back will "
                       "not be noticed: ",
                       saved.message(), "; TF_LICENSE_STATE=FILE names another place"));
    }
  }
  if (verdict->state == State::kGrace) {
    warnings.push_back(absl::StrCat("License expired ", FormatInstant(license->expires),
                                    "; grace: ", verdict->grace_days_left,
                                    " days left, then workers are refused. Install a renewed licence"));
  }
  GateResult result;
  result.passed = true;
  result.exit_status = 0;
  result.line = PassLine(*license, inputs.keyring->development());
  result.warnings = std::move(warnings);
  result.license = *license;
  result.verdict = *verdict;
  return result;
}

}  // namespace tf::license
