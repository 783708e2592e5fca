// Keys and licences for tests.
#pragma once

#include <string>

#include "base/encoding.h"
#include "license/issue.h"
#include "license/keys.h"
#include "license/license.h"

namespace tf::license {

inline const SigningKey& TestKey() {
  static const SigningKey* const key = new SigningKey(*SigningKey::Generate("test-key"));
  return *key;
}

inline Keyring TestRing() { return *Keyring::Parse(TestKey().KeyringLine(), false); }

inline absl::Time At(const char* text) { return *ParseInstant(text); }

// Every required field and no other; valid throughout 2027.
inline License MinimalLicense() {
  License license;
  license.kid = "test-key";
  license.id = "lic-7f3a";
  license.customer = "Example AG";
  license.edition = "enterprise";
  license.issued = At("2026-11-30T00:00:00Z");
  license.expires = At("2027-11-30T00:00:00Z");
  return license;
}

constexpr char kGpuA[] = "GPU-6f000000-1111-2222-3333-4444aaaabbbb";
constexpr char kGpuB[] = "GPU-b2000000-1111-2222-3333-4444aaaabbbb";
constexpr char kGpuC[] = "GPU-c3000000-1111-2222-3333-4444aaaabbbb";

// Every field there is.
inline License FullLicense() {
  License license = MinimalLicense();
  license.customer = "Größe; 100% & Söhne";
  license.not_before = At("2026-12-24T18:00:00Z");
  license.grace_days = 14;
  license.max_gpus = 64;
  license.gpus = {kGpuA, kGpuB};
  license.features = {"console", "rdma"};
  return license;
}

inline Issued IssueForTest(const License& license) { return *Issue(license, TestKey()); }

// Any text, with a signature that holds.
inline Issued SignForTest(const std::string& text) {
  const Signature signature = *TestKey().Sign(SignedBytes(text));
  return {text, Base64UrlEncode({reinterpret_cast<const char*>(signature.data()), signature.size()})};
}

}  // namespace tf::license
