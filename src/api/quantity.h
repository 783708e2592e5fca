// An amount as Kubernetes writes it: "10Gi", "1000m", "312", "1e3".
//
// Exact decimals from -(2^63-1) to 2^63-1 in steps of 10^-9, as in Kubernetes: finer amounts are rounded away from zero
// when read, and what is larger, read or computed, becomes the bound. Suffixes n u m k M G T P E (powers of 1000),
// Ki Mi Gi Ti Pi Ei (powers of 1024), exponents e3 or E3. Follows "Quantity" of the Kubernetes API reference. An
// immutable value.
//
// Equal and ordered by amount ("1" == "1000m"). Text that was read is written back as it was; what was computed is
// written in the canonical form: no fraction, the largest suffix that keeps the number whole.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::api {

class Quantity {
 public:
  // The suffixes that the canonical form uses.
  enum class Form : uint8_t { kDecimal, kBinary, kExponent };

  Quantity() = default;  // 0
  explicit Quantity(int64_t units, Form form = Form::kDecimal);

  // InvalidArgument says what is expected.
  static absl::StatusOr<Quantity> Parse(std::string_view text);
  static Quantity FromMilli(int64_t thousandths);
  static Quantity FromBytes(int64_t bytes) { return Quantity(bytes, Form::kBinary); }

  // As it was read, or the canonical form.
  std::string Text() const { return text_.empty() ? Canonical() : text_; }
  std::string Canonical() const;
  // It was a number and no string in JSON.
  bool read_as_number() const { return number_; }
  Quantity ReadAsNumber() const;

  bool IsZero() const { return nano_ == 0; }
  bool IsNegative() const { return nano_ < 0; }
  // Whole units, thousandths; a rest is rounded away from zero, as in Kubernetes, and out of range is the bound.
  int64_t Units() const;
  int64_t Milli() const;
  double Double() const;

  // The form is the left one's, or the other's where the left one is 0.
  Quantity operator+(const Quantity& other) const;
  Quantity operator-(const Quantity& other) const;
  Quantity operator-() const;
  Quantity operator*(int64_t factor) const;
  Quantity& operator+=(const Quantity& other) { return *this = *this + other; }
  Quantity& operator-=(const Quantity& other) { return *this = *this - other; }
  // `percent` hundredths of it; a rest below 10^-9 is dropped.
  Quantity Percent(int64_t percent) const;

  bool operator==(const Quantity& other) const { return nano_ == other.nano_; }
  std::strong_ordering operator<=>(const Quantity& other) const { return nano_ <=> other.nano_; }

 private:
  __extension__ typedef __int128 Int;

  static Quantity FromNano(Int nano, Form form);
  Form FormWith(const Quantity& other) const { return nano_ == 0 ? other.form_ : form_; }

  Int nano_ = 0;
  Form form_ = Form::kDecimal;
  bool number_ = false;
  std::string text_ = {};
};

}  // namespace tf::api
