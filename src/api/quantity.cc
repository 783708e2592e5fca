#include "api/quantity.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::api {
namespace {

__extension__ typedef __int128 Int;
__extension__ typedef unsigned __int128 Unsigned;

constexpr Int kNano = 1'000'000'000;
constexpr int64_t kMaxUnits = std::numeric_limits<int64_t>::max();
constexpr Int kMax = kMaxUnits * kNano;

// The decimal suffixes by power of 1000, from 10^-9.
constexpr std::array<std::string_view, 10> kDecimalSuffixes = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
constexpr std::array<std::string_view, 7> kBinarySuffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

std::string Digits(Int value) {
  // The magnitude, so that the most negative value needs no care.
  Unsigned rest = value < 0 ? -static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  std::string reversed;
  do {
    reversed.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  if (value < 0) reversed.push_back('-');
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

Int Clamp(Int nano) { return std::clamp(nano, -kMax, kMax); }

absl::Status Malformed(std::string_view text) {
  const std::string shown(text.substr(0, 64));
  return absl::InvalidArgumentError(
      absl::StrCat("expected a quantity such as 312, 1.5, 500m or 10Gi, found \"", shown, "\""));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int64_t AwayFromZero(Int nano, Int unit) {
  Int whole = nano / unit;
  if (nano % unit != 0) whole += nano < 0 ? -1 : 1;
  return static_cast<int64_t>(std::clamp<Int>(whole, -kMaxUnits, kMaxUnits));
}

}  // namespace

Quantity::Quantity(int64_t units, Form form) : nano_(Clamp(units * kNano)), form_(form) {}

Quantity Quantity::FromNano(Int nano, Form form) {
  Quantity result;
  result.nano_ = Clamp(nano);
  result.form_ = form;
  return result;
}

Quantity Quantity::FromMilli(int64_t thousandths) { return FromNano(Int{thousandths} * 1'000'000, Form::kDecimal); }

Quantity Quantity::ReadAsNumber() const {
  Quantity result = *this;
  result.number_ = true;
  return result;
}

absl::StatusOr<Quantity> Quantity::Parse(std::string_view text) {
  // Nothing sensible is longer; the limit also bounds the exponent arithmetic below.
  if (text.size() > 256) return Malformed(text);
  size_t at = 0;
  const bool negative = at < text.size() && text[at] == '-';
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;

  // The digits without the point, and how many of them stand behind it.
  std::string digits;
  int fraction = 0;
  bool point = false;
  for (; at < text.size() && (IsDigit(text[at]) || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
    } else {
      digits.push_back(text[at]);
      if (point) ++fraction;
    }
  }
  if (digits.empty()) return Malformed(text);

  const std::string_view suffix = text.substr(at);
  Quantity result;
  int exponent = 0;  // of ten
  Int factor = 1;    // of the binary suffixes
  auto decimal = std::find(kDecimalSuffixes.begin(), kDecimalSuffixes.end(), suffix);
  auto binary = std::find(kBinarySuffixes.begin() + 1, kBinarySuffixes.end(), suffix);
  if (decimal != kDecimalSuffixes.end()) {
    exponent = 3 * (static_cast<int>(decimal - kDecimalSuffixes.begin()) - 3);
  } else if (binary != kBinarySuffixes.end()) {
    result.form_ = Form::kBinary;
    factor = Int{1} << (10 * (binary - kBinarySuffixes.begin()));
  } else if (suffix.size() >= 2 && (suffix[0] == 'e' || suffix[0] == 'E')) {
    result.form_ = Form::kExponent;
    size_t i = 1;
    const bool below = suffix[i] == '-';
    if (suffix[i] == '-' || suffix[i] == '+') ++i;
    if (i == suffix.size()) return Malformed(text);
    for (; i < suffix.size(); ++i) {
      if (!IsDigit(suffix[i])) return Malformed(text);
      exponent = std::min(exponent * 10 + (suffix[i] - '0'), 10'000);
    }
    if (below) exponent = -exponent;
  } else {
    return Malformed(text);
  }

  // digits × 10^scale × factor nano-units. Digit by digit, with what falls below a nano-unit rounded away from zero.
  // digits × factor may pass 128 bits where the result does not (0.00…1Ei): leading zeros go first, and what is left
  // beyond 2^63 units in any case is the bound.
  digits.erase(0, digits.find_first_not_of('0'));
  int scale = exponent - fraction + 9;
  // Zeros at the end are worth nothing but room.
  while (!digits.empty() && digits.back() == '0' && scale < 0) {
    digits.pop_back();
    ++scale;
  }
  Int nano = 0;
  if (!digits.empty()) {
    const int magnitude = static_cast<int>(digits.size()) + scale;  // below 10^magnitude before the factor
    if (magnitude > 30) {
      nano = kMax;
    } else if (scale >= 0) {
      for (char c : digits) nano = nano * 10 + (c - '0');
      for (int i = 0; i < scale; ++i) nano *= 10;
      nano = nano > kMax / factor ? kMax : nano * factor;
    } else {
      // Long division of digits × factor by 10^-scale. The binary factor is multiplied in digit by digit: the number is
      // held as whole and rest (in units of the last digit) so that nothing overflows.
      const size_t whole_digits = magnitude > 0 ? static_cast<size_t>(magnitude) : 0;
      for (size_t i = 0; i < whole_digits; ++i) nano = nano * 10 + (digits[i] - '0');
      nano = nano > kMax / factor ? kMax : nano * factor;
      // The fraction 0.000ddd × factor, from its last digit: carry = (digit × factor + carry) / 10.
      Int carry = 0;
      bool rest = false;
      for (size_t i = digits.size(); i > whole_digits; --i) {
        const Int sum = (digits[i - 1] - '0') * factor + carry;
        rest = rest || sum % 10 != 0;
        carry = sum / 10;
      }
      for (int i = magnitude; i < 0 && (carry != 0 || rest); ++i) {
        rest = rest || carry % 10 != 0;
        carry /= 10;
      }
      nano += carry + (rest ? 1 : 0);
    }
  }
  result.nano_ = Clamp(negative ? -nano : nano);
  result.text_ = std::string(text);
  return result;
}

std::string Quantity::Canonical() const {
  if (nano_ == 0) return "0";
  // Below 1024, and where a fraction would be lost, Kubernetes writes the decimal form.
  if (form_ == Form::kBinary && nano_ % kNano == 0 && (nano_ >= 1024 * kNano || nano_ <= -1024 * kNano)) {
    Int units = nano_ / kNano;
    size_t power = 0;
    while (power + 1 < kBinarySuffixes.size() && units % 1024 == 0) {
      units /= 1024;
      ++power;
    }
    return absl::StrCat(Digits(units), absl::string_view(kBinarySuffixes[power].data(), kBinarySuffixes[power].size()));
  }
  Int value = nano_;
  size_t power = 0;
  while (power + 1 < kDecimalSuffixes.size() && value % 1000 == 0) {
    value /= 1000;
    ++power;
  }
  if (form_ == Form::kExponent) {
    const int exponent = 3 * (static_cast<int>(power) - 3);
    return exponent == 0 ? Digits(value) : absl::StrCat(Digits(value), "e", exponent);
  }
  return absl::StrCat(Digits(value), absl::string_view(kDecimalSuffixes[power].data(), kDecimalSuffixes[power].size()));
}

int64_t Quantity::Units() const { return AwayFromZero(nano_, kNano); }

int64_t Quantity::Milli() const { return AwayFromZero(nano_, kNano / 1000); }

double Quantity::Double() const {
  const Int whole = nano_ / kNano;
  const Int rest = nano_ % kNano;
  return static_cast<double>(whole) + static_cast<double>(rest) / static_cast<double>(kNano);
}

Quantity Quantity::operator+(const Quantity& other) const { return FromNano(nano_ + other.nano_, FormWith(other)); }

Quantity Quantity::operator-(const Quantity& other) const { return FromNano(nano_ - other.nano_, FormWith(other)); }

Quantity Quantity::operator-() const { return FromNano(-nano_, form_); }

Quantity Quantity::operator*(int64_t factor) const {
  Int product = 0;
  if (__builtin_mul_overflow(nano_, Int{factor}, &product)) {
    product = (nano_ < 0) == (factor < 0) ? kMax : -kMax;
  }
  return FromNano(product, form_);
}

Quantity Quantity::Percent(int64_t percent) const {
  Int product = 0;
  if (__builtin_mul_overflow(nano_, Int{percent}, &product)) {
    product = (nano_ < 0) == (percent < 0) ? kMax : -kMax;
    return FromNano(product, form_);
  }
  return FromNano(product / 100, form_);
}

}  // namespace tf::api
