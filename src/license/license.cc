#include "license/license.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tf::license {
namespace {

constexpr std::string_view kPrefix = "tf1;kid=";
constexpr char kInstallUnchanged[] = "; install the text exactly as it was issued";

bool IsAlnum(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char ToLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsTextCharacter(char c) {
  return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '\\' && c != '$' && c != '`';
}

int HexValue(char c) {
  const char lower = ToLower(c);
  if (IsDigit(lower)) return lower - '0';
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Well-formed UTF-8 (no overlong forms, surrogates or values above U+10FFFF) without control characters, which would
// let a name write lines of its own into a log.
bool IsPrintableUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const int length = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xe ? 3 : lead >> 3 == 0x1e ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    for (int k = 1; k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if (next >> 6 != 0x2) return false;
      point = point << 6 | (next & 0x3f);
    }
    constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kSmallest[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
    i += length;
  }
  return true;
}

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (char c : text) {
    if (IsAlnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<uint8_t>(c));
    }
  }
  return encoded;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || HexValue(text[i + 1]) < 0 || HexValue(text[i + 2]) < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(HexValue(text[i + 1]) << 4 | HexValue(text[i + 2])));
    i += 2;
  }
  return decoded;
}

// A whole number from 1 to `largest`, without sign or leading zero.
std::optional<int> ParseNumber(std::string_view text, int largest) {
  if (text.empty() || text.size() > 10 || text[0] == '0') return std::nullopt;
  int64_t number = 0;
  for (char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    number = number * 10 + (c - '0');
  }
  if (number > largest) return std::nullopt;
  return static_cast<int>(number);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <typename T>
bool Assign(std::optional<T> value, T& target) {
  if (!value) return false;
  target = std::move(*value);
  return true;
}

bool ReadToken(std::string_view value, std::string& target) {
  target = std::string(value);
  return IsToken(value);
}

bool ReadGpus(std::string_view value, License& license) {
  const std::vector<std::string_view> parts = Split(value, ',');
  absl::StatusOr<std::vector<std::string>> gpus = NormaliseGpuUuids({parts.begin(), parts.end()});
  if (!gpus.ok()) return false;
  license.gpus = *std::move(gpus);
  return true;
}

bool ReadFeatures(std::string_view value, License& license) {
  for (std::string_view feature : Split(value, ',')) {
    if (!IsToken(feature)) return false;
    license.features.emplace_back(feature);
  }
  return true;
}

// One row per key: its name, what its value looks like (for messages), how it is read, and how it is written ("": left
// out). The order of the rows is the order in the text.
struct Field {
  std::string_view key;
  bool required;
  std::string_view form;
  bool (*read)(std::string_view value, License& license);
  std::string (*write)(const License& license);
};

constexpr std::string_view kTokenForm = "1 to 64 letters, digits, '.', '_' or '-'";
constexpr std::string_view kTimeForm = "a UTC time such as 2027-11-30T00:00:00Z";

constexpr Field kFields[] = {
    {"kid", true, kTokenForm, [](std::string_view v, License& l) { return ReadToken(v, l.kid); },
     [](const License& l) { return l.kid; }},
    {"id", true, kTokenForm, [](std::string_view v, License& l) { return ReadToken(v, l.id); },
     [](const License& l) { return l.id; }},
    {"customer", true, "percent-encoded UTF-8 without control characters",
     [](std::string_view v, License& l) { return Assign(PercentDecode(v), l.customer) && IsPrintableUtf8(l.customer); },
     [](const License& l) { return PercentEncode(l.customer); }},
    {"edition", true, kTokenForm, [](std::string_view v, License& l) { return ReadToken(v, l.edition); },
     [](const License& l) { return l.edition; }},
    {"issued", true, kTimeForm, [](std::string_view v, License& l) { return Assign(ParseInstant(v), l.issued); },
     [](const License& l) { return FormatInstant(l.issued); }},
    {"expires", true, kTimeForm, [](std::string_view v, License& l) { return Assign(ParseInstant(v), l.expires); },
     [](const License& l) { return FormatInstant(l.expires); }},
    {"not-before", false, kTimeForm,
     [](std::string_view v, License& l) {
       l.not_before = ParseInstant(v);
       return l.not_before.has_value();
     },
     [](const License& l) { return l.not_before ? FormatInstant(*l.not_before) : std::string(); }},
    {"grace", false, "1 to 3650 days, such as 14d",
     [](std::string_view v, License& l) {
       return v.back() == 'd' && Assign(ParseNumber(v.substr(0, v.size() - 1), kMaxGraceDays), l.grace_days);
     },
     [](const License& l) { return l.grace_days != 0 ? absl::StrCat(l.grace_days, "d") : std::string(); }},
    {"max-gpus", false, "a number of cards, 1 or more",
     [](std::string_view v, License& l) {
       l.max_gpus = ParseNumber(v, std::numeric_limits<int>::max());
       return l.max_gpus.has_value();
     },
     [](const License& l) { return l.max_gpus ? absl::StrCat(*l.max_gpus) : std::string(); }},
    {"gpus", false, "GPU UUIDs as NVML prints them, joined by ','", ReadGpus,
     [](const License& l) { return absl::StrJoin(l.gpus, ","); }},
    {"features", false, "names joined by ','", ReadFeatures,
     [](const License& l) { return absl::StrJoin(l.features, ","); }},
};

// nullptr when the dates are in order.
const char* WrongDates(const License& license) {
  if (license.expires <= license.issued) return "it expires before it is issued";
  if (license.not_before && license.expires <= *license.not_before) return "it expires before it begins";
  return nullptr;
}

Refusal BadFields(std::string found) {
  return {Reason::kMalformedText,
          absl::StrCat("reading the fields: ", found,
                       "; the text was issued wrongly, or for a newer version: update, or ask for a new licence")};
}

}  // namespace

bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsAlnum(c) || c == '.' || c == '_' || c == '-'; });
}

std::optional<std::string> NormaliseGpuUuid(std::string_view uuid) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = uuid.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return std::nullopt;
  uuid = uuid.substr(first, uuid.find_last_not_of(kBlanks) - first + 1);

  std::string lower(uuid);
  std::transform(lower.begin(), lower.end(), lower.begin(), ToLower);
  std::string prefix = "GPU-";
  if (lower.starts_with("gpu-") || lower.starts_with("mig-")) {
    if (lower[0] == 'm') prefix = "MIG-";
    lower.erase(0, 4);
  }
  if (lower.size() != 36) return std::nullopt;
  for (size_t i = 0; i < lower.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? lower[i] != '-' : HexValue(lower[i]) < 0) return std::nullopt;
  }
  return prefix + lower;
}

absl::StatusOr<std::vector<std::string>> NormaliseGpuUuids(const std::vector<std::string>& uuids) {
  std::set<std::string> normalised;
  for (const std::string& uuid : uuids) {
    std::optional<std::string> one = NormaliseGpuUuid(uuid);
    if (!one) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", uuid, "' is no GPU UUID; expected GPU- and 8-4-4-4-12 hexadecimal digits, as NVML prints it"));
    }
    normalised.insert(*std::move(one));
  }
  return std::vector<std::string>(normalised.begin(), normalised.end());
}

std::optional<absl::Time> ParseInstant(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != kForm.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] == 'd' ? !IsDigit(text[i]) : text[i] != kForm[i]) return std::nullopt;
  }
  const auto number = [text](size_t at, size_t length) {
    int value = 0;
    for (char c : text.substr(at, length)) value = value * 10 + (c - '0');
    return value;
  };
  const absl::CivilSecond civil(number(0, 4), number(5, 2), number(8, 2), number(11, 2), number(14, 2), number(17, 2));
  const absl::Time time = absl::FromCivil(civil, absl::UTCTimeZone());
  // A day or an hour that does not exist has been carried over into another one.
  if (FormatInstant(time) != text) return std::nullopt;
  return time;
}

std::string FormatInstant(absl::Time time) {
  const absl::CivilSecond civil = absl::ToCivilSecond(time, absl::UTCTimeZone());
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02dZ", civil.year(), civil.month(), civil.day(), civil.hour(),
                         civil.minute(), civil.second());
}

OrRefusal<std::string> ReadKid(std::string_view text) {
  const auto malformed = [](std::string found) {
    return Refusal{Reason::kMalformedText, absl::StrCat("reading the text: ", found, kInstallUnchanged)};
  };
  if (text.size() > kMaxTextBytes) {
    return malformed(absl::StrCat("it has ", text.size(), " bytes, and a licence has at most ", kMaxTextBytes));
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsTextCharacter(text[i])) {
      return malformed(
          absl::StrFormat("byte %d is 0x%02x, which no licence contains", i + 1, static_cast<uint8_t>(text[i])));
    }
  }
  if (!text.starts_with(kPrefix)) {
    return malformed(text.size() == 86 ? "it looks like a signature: are the two values exchanged?"
                                       : "it does not begin with 'tf1;kid='");
  }
  text.remove_prefix(kPrefix.size());
  const std::string_view kid = text.substr(0, text.find(';'));
  if (kid.size() == text.size()) return malformed("it ends after the key id");
  if (!IsToken(kid)) return malformed(absl::StrCat("the key id is not ", std::string(kTokenForm)));
  return std::string(kid);
}

OrRefusal<License> ReadFields(std::string_view text) {
  const OrRefusal<std::string> kid = ReadKid(text);
  if (!kid.ok()) return kid.refusal();

  License license;
  std::vector<std::string_view> parts = Split(text, ';');
  size_t next = 1;  // after "tf1"
  for (const Field& field : kFields) {
    const std::string key(field.key);
    const bool present = next < parts.size() && parts[next].substr(0, parts[next].find('=')) == field.key &&
                         parts[next].size() > field.key.size();
    if (!present) {
      if (!field.required) continue;
      return BadFields(absl::StrCat("field ", next, " should be '", key, "'"));
    }
    const std::string_view value = parts[next].substr(field.key.size() + 1);
    if (value.empty() || !field.read(value, license)) {
      return BadFields(absl::StrCat("the value of '", key, "' is not ", std::string(field.form)));
    }
    ++next;
  }
  if (next < parts.size()) {
    return BadFields(absl::StrCat("field ", next, " is unknown, repeated, without a value or out of order"));
  }
  if (const char* wrong = WrongDates(license)) return BadFields(wrong);
  return license;
}

absl::StatusOr<std::string> WriteText(const License& license) {
  std::string text = "tf1";
  License again;
  for (const Field& field : kFields) {
    const std::string key(field.key);
    const std::string value = field.write(license);
    if (value.empty() && !field.required) continue;
    // One set of rules for both directions: what would not be read back is not written.
    if (value.empty() || !field.read(value, again)) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "' must be ", std::string(field.form)));
    }
    absl::StrAppend(&text, ";", key, "=", value);
  }
  if (const char* wrong = WrongDates(license)) return absl::InvalidArgumentError(wrong);
  if (again != license) {
    return absl::InvalidArgumentError(
        "a licence holds whole seconds, and GPU UUIDs that are normalised, sorted and named once");
  }
  if (const OrRefusal<std::string> kid = ReadKid(text); !kid.ok()) {
    return absl::InvalidArgumentError(kid.refusal().text);
  }
  return text;
}

}  // namespace tf::license
