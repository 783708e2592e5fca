#include "license/issue.h"

#include "base/encoding.h"

namespace tf::license {

std::string SignedBytes(std::string_view text) { return std::string("tensor-fusion license v1\n").append(text); }

absl::StatusOr<Issued> Issue(License license, const SigningKey& key) {
  license.kid = key.kid();
  absl::StatusOr<std::string> text = WriteText(license);
  if (!text.ok()) return text.status();
  const absl::StatusOr<Signature> signature = key.Sign(SignedBytes(*text));
  if (!signature.ok()) return signature.status();
  return Issued{*std::move(text),
                Base64UrlEncode({reinterpret_cast<const char*>(signature->data()), signature->size()})};
}

}  // namespace tf::license
