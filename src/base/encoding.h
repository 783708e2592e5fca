// Bytes as text: lower-case hexadecimal, and base64url without padding (RFC 4648 section 5).
//
// Decoding is strict: exactly one text stands for each byte string. What is not the output of the encoder for some
// bytes (padding, the other alphabet, white space, upper-case hexadecimal digits, set bits after the last byte) gives
// nullopt. Pure functions, no limits on length.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tf {

std::string HexEncode(std::string_view bytes);
std::optional<std::string> HexDecode(std::string_view text);

std::string Base64UrlEncode(std::string_view bytes);
std::optional<std::string> Base64UrlDecode(std::string_view text);

}  // namespace tf
