// Parse and Verify on arbitrary strings. The input is the text, a NUL, and the signature.
//
// What must hold: nothing crashes; only a pair that was issued by the fixed key passes; a text whose fields are read
// writes a text that reads the same; every refusal is one printable line.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/encoding.h"
#include "license/check.h"
#include "license/issue.h"

namespace {

using tf::license::License;
using tf::license::OrRefusal;

// Signs for this fuzzer and nothing else.
constexpr char kKey[] =
    "kid fuzz\n"
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n"
    "-----END PRIVATE KEY-----\n";

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckRefusal(const tf::license::Refusal& refusal) {
  Require(!tf::license::ReasonCode(refusal.reason).empty() && !refusal.text.empty() && refusal.text.size() < 1000);
  for (char c : refusal.text) Require(c >= ' ' && c <= '~');
}

void CheckFields(std::string_view text) {
  const OrRefusal<License> license = tf::license::ReadFields(text);
  if (!license.ok()) return CheckRefusal(license.refusal());
  const absl::StatusOr<std::string> written = tf::license::WriteText(*license);
  // Only a customer's name grows when it is written the usual way, at most by a factor of three.
  if (!written.ok()) return Require(text.size() > tf::license::kMaxTextBytes / 3);
  Require(*tf::license::ReadFields(*written) == *license);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const key = new tf::license::SigningKey(*tf::license::SigningKey::FromFileText(kKey));
  static const auto* const ring = new tf::license::Keyring(*tf::license::Keyring::Parse(key->KeyringLine(), false));

  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string_view text = input.substr(0, end);
  const std::string_view signature = end == std::string_view::npos ? "" : input.substr(end + 1);

  CheckFields(text);
  const OrRefusal<tf::license::SignedText> parsed = tf::license::Parse(text, signature);
  if (!parsed.ok()) {
    CheckRefusal(parsed.refusal());
    return 0;
  }
  const OrRefusal<License> license = tf::license::Verify(*parsed, *ring);
  if (license.ok()) {
    const auto own = key->Sign(tf::license::SignedBytes(parsed->text));
    Require(own.ok() && *own == parsed->signature);
  } else {
    CheckRefusal(license.refusal());
  }
  return 0;
}
