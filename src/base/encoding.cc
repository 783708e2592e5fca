#include "base/encoding.h"

#include <cstdint>

namespace tf {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64UrlDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// Takes `bits` bits per digit, most significant first, and drops what does not fill a byte at the end.
std::optional<std::string> DecodeDigits(std::string_view text, std::string_view digits, int bits) {
  std::string bytes;
  bytes.reserve(text.size() * bits / 8);
  uint32_t pending = 0;
  int pending_bits = 0;
  for (char digit : text) {
    const size_t value = digits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    pending = (pending << bits | static_cast<uint32_t>(value)) & 0xffff;
    pending_bits += bits;
    if (pending_bits >= 8) {
      pending_bits -= 8;
      bytes.push_back(static_cast<char>(pending >> pending_bits & 0xff));
    }
  }
  return bytes;
}

std::string EncodeDigits(std::string_view bytes, std::string_view digits, int bits) {
  const uint32_t mask = (1u << bits) - 1;
  std::string text;
  text.reserve((bytes.size() * 8 + bits - 1) / bits);
  uint32_t pending = 0;
  int pending_bits = 0;
  for (char byte : bytes) {
    pending = (pending << 8 | static_cast<uint8_t>(byte)) & 0xffff;
    pending_bits += 8;
    while (pending_bits >= bits) {
      pending_bits -= bits;
      text.push_back(digits[pending >> pending_bits & mask]);
    }
  }
  if (pending_bits > 0) text.push_back(digits[pending << (bits - pending_bits) & mask]);
  return text;
}

std::optional<std::string> DecodeStrictly(std::string_view text, std::string_view digits, int bits) {
  std::optional<std::string> bytes = DecodeDigits(text, digits, bits);
  if (bytes && EncodeDigits(*bytes, digits, bits) != text) return std::nullopt;
  return bytes;
}

}  // namespace

std::string HexEncode(std::string_view bytes) { return EncodeDigits(bytes, kHexDigits, 4); }
std::optional<std::string> HexDecode(std::string_view text) { return DecodeStrictly(text, kHexDigits, 4); }

std::string Base64UrlEncode(std::string_view bytes) { return EncodeDigits(bytes, kBase64UrlDigits, 6); }
std::optional<std::string> Base64UrlDecode(std::string_view text) { return DecodeStrictly(text, kBase64UrlDigits, 6); }

}  // namespace tf
