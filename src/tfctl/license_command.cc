// tfctl license keygen | issue | inspect | verify (usage: license_usage_command.cc)
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "cuda/loader/library.h"
#include "cuda/loader/monitor.h"
#include "license/gate.h"
#include "license/issue.h"
#include "tfctl/commands.h"
#include "tfctl/signing_key.h"

namespace tf::tfctl {
namespace {

using license::EnvLookup;
using license::GateInputs;
using license::GateResult;
using license::Issued;
using license::License;
using license::SigningKey;

int Fail(const absl::Status& status) {
  PrintError(std::string(status.message()));
  return 1;
}

// A day means its first second, UTC.
absl::StatusOr<absl::Time> ParseDate(const std::string& option, const std::string& text) {
  for (const std::string& candidate : {text, text + "T00:00:00Z"}) {
    if (const std::optional<absl::Time> time = license::ParseInstant(candidate)) return *time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is '", text, "'; expected a UTC date such as 2027-11-30 or 2027-11-30T00:00:00Z"));
}

// ---- keygen

struct KeygenOptions {
  std::string kid;
  std::string out;
};

int Keygen(const KeygenOptions& options) {
  const absl::StatusOr<SigningKey> key = SigningKey::Generate(options.kid);
  if (!key.ok()) return Fail(key.status());
  const std::string file = options.out.empty() ? key->kid() + ".key" : options.out;
  const absl::Status created = CreateFile(file, key->ToFileText(), 0600);
  if (absl::IsAlreadyExists(created)) {
    PrintError(absl::StrCat(file, " exists and is left as it is; name another file with --out"));
    return 1;
  }
  if (!created.ok()) return Fail(created);
  std::fprintf(stderr,
               "Key id %s. Private key in %s: keep it secret, and keep a copy. Public key, a line for the file "
               "of -DTF_LICENSE_KEYRING:\n",
               key->kid().c_str(), file.c_str());
  std::printf("%s\n", key->KeyringLine().c_str());
  return 0;
}

// ---- issue

struct IssueOptions {
  License license;
  std::string key, issued, expires, not_before, format = "env";
  int days = 365;
  int max_gpus = 0;
};

absl::StatusOr<License> FromOptions(const IssueOptions& options) {
  License license = options.license;
  license.issued = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  if (!options.issued.empty()) {
    const absl::StatusOr<absl::Time> time = ParseDate("--issued", options.issued);
    if (!time.ok()) return time.status();
    license.issued = *time;
  }
  license.expires = license.issued + absl::Hours(24) * options.days;
  if (!options.expires.empty()) {
    const absl::StatusOr<absl::Time> time = ParseDate("--expires", options.expires);
    if (!time.ok()) return time.status();
    license.expires = *time;
  }
  if (!options.not_before.empty()) {
    const absl::StatusOr<absl::Time> time = ParseDate("--not-before", options.not_before);
    if (!time.ok()) return time.status();
    license.not_before = *time;
  }
  if (options.max_gpus != 0) license.max_gpus = options.max_gpus;
  absl::StatusOr<std::vector<std::string>> gpus = license::NormaliseGpuUuids(license.gpus);
  if (!gpus.ok()) return gpus.status();
  license.gpus = *std::move(gpus);
  if (license.id.empty()) license.id = absl::StrFormat("lic-%08x", absl::Uniform<uint32_t>(absl::BitGen()));
  return license;
}

// Neither string contains a character that any of these forms would have to escape.
std::string Format(const Issued& issued, const std::string& format) {
  if (format == "yaml") {
    return absl::StrCat("- name: TF_LICENSE\n  value: \"", issued.text, "\"\n- name: TF_LICENSE_SIGN\n  value: \"",
                        issued.signature, "\"\n");
  }
  if (format == "json") {
    return absl::StrCat("{\"TF_LICENSE\": \"", issued.text, "\", \"TF_LICENSE_SIGN\": \"", issued.signature, "\"}\n");
  }
  return absl::StrCat("TF_LICENSE='", issued.text, "'\nTF_LICENSE_SIGN='", issued.signature, "'\n");
}

int IssueLicense(const IssueOptions& options) {
  const absl::StatusOr<SigningKey> key = LoadSigningKey(options.key);
  if (!key.ok()) return Fail(key.status());
  const absl::StatusOr<License> license = FromOptions(options);
  if (!license.ok()) return Fail(license.status());
  const absl::StatusOr<Issued> issued = license::Issue(*license, *key);
  if (!issued.ok()) return Fail(issued.status());
  if (license::BuiltinKeyring().Find(key->kid()) == nullptr) {
    std::fprintf(stderr, "tfctl: note: workers of this build do not trust key %s (they trust %s)\n", key->kid().c_str(),
                 license::BuiltinKeyring().KidList().c_str());
  }
  std::fputs(Format(*issued, options.format).c_str(), stdout);
  return 0;
}

// ---- inspect and verify

struct InstalledOptions {
  std::string text, signature, at;
  std::vector<std::string> gpus;
};

// The environment, in which the options replace what they name.
EnvLookup Lookup(const InstalledOptions& options) {
  return [options, env = license::ProcessEnv()](const std::string& name) -> std::optional<std::string> {
    if (name == "TF_LICENSE" && !options.text.empty()) return options.text;
    if (name == "TF_LICENSE_SIGN" && !options.signature.empty()) return options.signature;
    return env(name);
  };
}

void PrintRefusal(const license::Refusal& refusal) {
  PrintError(absl::StrCat(std::string(license::ReasonCode(refusal.reason)), ": ", refusal.text));
}

std::string StateOf(const License& license, absl::Time now) {
  const auto verdict = license::EvaluateDates(license, now, {license::BuildTime(), std::nullopt});
  if (!verdict.ok()) return absl::StrCat(std::string(license::ReasonCode(verdict.refusal().reason)));
  if (verdict->state == license::State::kGrace) return absl::StrCat("in grace, days left: ", verdict->grace_days_left);
  return "valid";
}

int Inspect(const InstalledOptions& options) {
  const EnvLookup env = Lookup(options);
  const auto parsed = license::Parse(env("TF_LICENSE").value_or(""), env("TF_LICENSE_SIGN").value_or(""));
  if (!parsed.ok()) return PrintRefusal(parsed.refusal()), license::kRefusedExitStatus;
  const license::Keyring& ring = license::BuiltinKeyring();
  const auto license = license::Verify(*parsed, ring);
  if (!license.ok()) return PrintRefusal(license.refusal()), license::kRefusedExitStatus;

  const absl::Time now = absl::Now();
  const auto days = [now](absl::Time time) {
    const int64_t whole = (time - now) / absl::Hours(24);
    return time >= now ? absl::StrCat(" (days left: ", whole, ")") : absl::StrCat(" (days ago: ", -whole, ")");
  };
  const auto line = [](const char* name, const std::string& value) { std::printf("%-12s%s\n", name, value.c_str()); };
  line("id", license->id);
  line("customer", license->customer);
  line("edition", license->edition);
  line("issued", license::FormatInstant(license->issued));
  line("expires", license::FormatInstant(license->expires) + days(license->expires));
  line("not-before", license->not_before ? license::FormatInstant(*license->not_before) : "none");
  line("grace", license->grace_days > 0
                    ? absl::StrCat(license->grace_days, " days, until ",
                                   license::FormatInstant(license->expires + absl::Hours(24) * license->grace_days))
                    : "none");
  line("max-gpus", license->max_gpus ? absl::StrCat(*license->max_gpus) : "no limit");
  line("gpus", license->gpus.empty() ? "any" : absl::StrJoin(license->gpus, ", "));
  line("features", license->features.empty() ? "none" : absl::StrJoin(license->features, ", "));
  line("signature",
       absl::StrCat("holds, key ", license->kid, ring.development() ? " (development key of a build)" : ""));
  line("state", StateOf(*license, now));
  return 0;
}

// What a worker would find, without leaving a trace of the question.
class ReadOnlyTimeStore : public license::FileTimeStore {
 public:
  using FileTimeStore::FileTimeStore;
  absl::Status Save(absl::Time) override { return absl::OkStatus(); }
};

int Verify(const InstalledOptions& options) {
  GateInputs inputs;
  inputs.env = Lookup(options);
  inputs.now = absl::Now();
  ReadOnlyTimeStore store(license::TimeStorePath(inputs.env, geteuid() == 0));
  inputs.time_store = &store;
  if (!options.at.empty()) {
    const absl::StatusOr<absl::Time> at = ParseDate("--at", options.at);
    if (!at.ok()) return Fail(at.status());
    inputs.now = *at;
    // The stored time belongs to today.
    inputs.time_store = nullptr;
  }
  inputs.list_gpus = [&options]() -> absl::StatusOr<std::vector<std::string>> {
    if (!options.gpus.empty()) return options.gpus;
    const absl::StatusOr<cuda::NvmlLibrary> nvml = cuda::LoadNvml();
    if (!nvml.ok()) return nvml.status();
    return cuda::VisibleGpuUuids(nvml->functions);
  };
  const GateResult result = license::CheckWorkerLicense(inputs);
  for (const std::string& warning : result.warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  std::fprintf(result.passed ? stdout : stderr, "%s\n", result.line.c_str());
  return result.exit_status;
}

// ---- the options

void AddInstalledOptions(CLI::App& command, InstalledOptions& options) {
  command.add_option("--license", options.text, "The licence text (default: the variable TF_LICENSE)");
  command.add_option("--sign", options.signature, "Its signature (default: the variable TF_LICENSE_SIGN)");
}

void AddKeygen(CLI::App& group, int& exit_status) {
  auto options = std::make_shared<KeygenOptions>();
  CLI::App* command = group.add_subcommand(
      "keygen",
      "Make a key pair. The private key goes to a file of mode 600; the public key, as a line for a key ring, to "
      "standard output.");
  command->add_option("--kid", options->kid, "Key id, such as 2026a (default: made from the public key)");
  command->add_option("--out", options->out, "File for the private key (default: KID.key)");
  command->callback([options, &exit_status] { exit_status = Keygen(*options); });
}

void AddIssue(CLI::App& group, int& exit_status) {
  auto options = std::make_shared<IssueOptions>();
  License& license = options->license;
  license.edition = "enterprise";
  CLI::App* command = group.add_subcommand("issue", "Sign a licence and print the two strings.");
  command->footer(
      "In a shell: set -a; eval \"$(tfctl license issue --customer 'Example AG')\"; set +a\n"
      "DATE is UTC: 2027-11-30 or 2027-11-30T12:00:00Z.");
  command->add_option("--customer", license.customer, "Who it is for")->required();
  command->add_option("--id", license.id, "Licence id (default: random)");
  command->add_option("--edition", license.edition, "Edition")->capture_default_str();
  command->add_option("--issued", options->issued, "DATE of issue (default: now)");
  CLI::Option* expires = command->add_option("--expires", options->expires, "DATE on which it expires");
  command->add_option("--days", options->days, "Instead: days from issue to expiry")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str()
      ->excludes(expires);
  command->add_option("--not-before", options->not_before, "DATE on which it begins (default: at once)");
  command->add_option("--grace", license.grace_days, "Days after expiry in which workers still start, with a warning")
      ->check(CLI::Range(0, license::kMaxGraceDays));
  command->add_option("--max-gpus", options->max_gpus, "Distinct cards in the cluster (default: no limit)")
      ->check(CLI::PositiveNumber);
  command->add_option("--gpus", license.gpus, "GPU UUIDs it is bound to, UUID,... (default: any)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--features", license.features, "Feature names, NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--key", options->key,
                      "Private key of tfctl license keygen (default: the build's development key)");
  command->add_option("--format", options->format, "env, yaml (entries of a container's env) or json")
      ->check(CLI::IsMember({"env", "yaml", "json"}))
      ->capture_default_str();
  command->callback([options, &exit_status] { exit_status = IssueLicense(*options); });
}

void AddInspect(CLI::App& group, int& exit_status) {
  auto options = std::make_shared<InstalledOptions>();
  CLI::App* command = group.add_subcommand("inspect", "Show the fields of a licence, once its signature holds.");
  AddInstalledOptions(*command, *options);
  command->callback([options, &exit_status] { exit_status = Inspect(*options); });
}

void AddVerify(CLI::App& group, int& exit_status) {
  auto options = std::make_shared<InstalledOptions>();
  CLI::App* command = group.add_subcommand(
      "verify",
      "Say what a worker would say of a licence: its line, and exit status 78 when it would refuse to start.");
  AddInstalledOptions(*command, *options);
  command->add_option("--at", options->at, "At this DATE (UTC; default: now)");
  command->add_option("--gpus", options->gpus, "With these GPUs, UUID,... (default: those that NVML lists here)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->callback([options, &exit_status] { exit_status = Verify(*options); });
}

}  // namespace

void AddLicenseCommand(CLI::App& app, int& exit_status) {
  CLI::App* group = app.add_subcommand("license", "Make, issue, read and check licences.");
  group->require_subcommand(1);
  AddKeygen(*group, exit_status);
  AddIssue(*group, exit_status);
  AddInspect(*group, exit_status);
  AddVerify(*group, exit_status);
  AddLicenseUsageCommand(*group, exit_status);
}

}  // namespace tf::tfctl
