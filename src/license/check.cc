#include "license/check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/encoding.h"
#include "license/issue.h"

namespace tf::license {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kSignatureCharacters = 86;

std::string WithoutBlanks(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kByteOrderMark)) {
      i += kByteOrderMark.size() - 1;
    } else if (text[i] != ' ' && (text[i] < '\t' || text[i] > '\r')) {
      kept.push_back(text[i]);
    }
  }
  return kept;
}

}  // namespace

OrRefusal<SignedText> Parse(std::string_view text, std::string_view signature) {
  SignedText result;
  result.text = WithoutBlanks(text);
  if (result.text.empty()) {
    return {Reason::kMissingText, "reading the text: TF_LICENSE is not set or empty; set it to the licence text"};
  }
  const std::string sign = WithoutBlanks(signature);
  if (sign.empty()) {
    return {Reason::kMissingSignature,
            "reading the signature: TF_LICENSE_SIGN is not set or empty; set it to the signature of the licence text"};
  }
  const OrRefusal<std::string> kid = ReadKid(result.text);
  if (!kid.ok()) return kid.refusal();
  result.kid = *kid;

  const std::optional<std::string> bytes = Base64UrlDecode(sign);
  if (sign.size() != kSignatureCharacters || !bytes) {
    const std::string found = sign.size() != kSignatureCharacters ? absl::StrCat("it has ", sign.size(), " characters")
                                                                  : std::string("it is not base64url");
    return {Reason::kMalformedSignature,
            absl::StrCat("reading the signature: ", found, ", and a signature has ", kSignatureCharacters,
                         " of A-Z a-z 0-9 - _; install the signature exactly as it was issued")};
  }
  std::copy(bytes->begin(), bytes->end(), result.signature.begin());
  return result;
}

OrRefusal<License> Verify(const SignedText& signed_text, const Keyring& keyring) {
  const PublicKey* key = keyring.Find(signed_text.kid);
  if (key == nullptr) {
    return {Reason::kUnknownKey, absl::StrCat("checking the signature: the licence names key '", signed_text.kid,
                                              "', and this program trusts ", keyring.KidList(),
                                              keyring.development() ? " (its own development key)" : "",
                                              "; update the program, or ask for a licence of a key that it trusts")};
  }
  if (!SignatureHolds(*key, SignedBytes(signed_text.text), signed_text.signature)) {
    return {Reason::kBadSignature,
            absl::StrCat("checking the signature: it is not the signature of this text by key '", signed_text.kid,
                         "'; set TF_LICENSE and TF_LICENSE_SIGN to a pair that was issued together, unchanged")};
  }
  return ReadFields(signed_text.text);
}

OrRefusal<Verdict> EvaluateDates(const License& license, absl::Time now, const KnownTimes& known) {
  const auto rolled_back = [now](absl::string_view event, absl::Time time, absl::string_view more) {
    return Refusal{Reason::kClockRolledBack,
                   absl::StrCat("checking the dates: the clock says ", FormatInstant(now), ", but ", event, " ",
                                FormatInstant(time), "; set the clock of this machine", more)};
  };
  if (now < known.build - kClockTolerance) return rolled_back("this program was built", known.build, "");
  if (now < license.issued - kClockTolerance) return rolled_back("the licence was issued", license.issued, "");
  if (known.last_trusted && now < known.last_trusted->time - kClockTolerance) {
    return rolled_back("this node accepted a licence", known.last_trusted->time,
                       absl::StrCat(", or, if it was ahead then and is right now, clear the stored time: ",
                                    known.last_trusted->how_to_clear));
  }
  if (license.not_before && now < *license.not_before) {
    return {Reason::kNotYetValid,
            absl::StrCat("checking the dates: the licence begins ", FormatInstant(*license.not_before),
                         ", and the clock says ", FormatInstant(now),
                         "; wait until then, or keep the last licence in place")};
  }
  if (now < license.expires) return Verdict{State::kValid};

  const absl::Duration left = license.expires + absl::Hours(24) * license.grace_days - now;
  if (left > absl::ZeroDuration()) {
    return Verdict{State::kGrace, static_cast<int>(absl::Ceil(left, absl::Hours(24)) / absl::Hours(24))};
  }
  return {Reason::kExpired,
          absl::StrCat(
              "checking the dates: the licence expired ", FormatInstant(license.expires),
              license.grace_days > 0 ? absl::StrCat(" and its grace of ", license.grace_days, " days is over") : "",
              ", and the clock says ", FormatInstant(now), "; install a renewed licence")};
}

std::optional<Refusal> EvaluateGpus(const License& license, const absl::StatusOr<std::vector<std::string>>& visible) {
  if (license.gpus.empty()) return std::nullopt;
  if (!visible.ok() || visible->empty()) {
    return Refusal{
        Reason::kGpuListUnavailable,
        absl::StrCat(
            "checking the GPUs: the licence is bound to ", license.gpus.size(), " GPUs and the driver ",
            visible.ok() ? std::string("lists none") : absl::StrCat("gives no list (", visible.status().message(), ")"),
            "; start the driver, or give this container a GPU, and start again")};
  }
  std::vector<std::string> refused;
  for (const std::string& uuid : *visible) {
    const std::optional<std::string> normalised = NormaliseGpuUuid(uuid);
    if (!normalised || !std::binary_search(license.gpus.begin(), license.gpus.end(), *normalised)) {
      refused.push_back(normalised.value_or(uuid));
    }
  }
  if (refused.empty()) return std::nullopt;
  return Refusal{Reason::kGpuNotLicensed,
                 absl::StrCat("checking the GPUs: not among the ", license.gpus.size(),
                              " GPUs of the licence: ", absl::StrJoin(refused, ", "),
                              "; hide them from this worker, or ask for a licence that names them")};
}

OrRefusal<Verdict> Evaluate(const License& license, absl::Time now,
                            const absl::StatusOr<std::vector<std::string>>& visible, const KnownTimes& known) {
  OrRefusal<Verdict> verdict = EvaluateDates(license, now, known);
  if (!verdict.ok()) return verdict;
  if (std::optional<Refusal> refusal = EvaluateGpus(license, visible)) return *std::move(refusal);
  return verdict;
}

}  // namespace tf::license
