#include "api/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tf::api {
namespace {

Quantity Q(std::string_view text) {
  auto quantity = Quantity::Parse(text);
  EXPECT_TRUE(quantity.ok()) << text << ": " << quantity.status();
  return quantity.value_or(Quantity());
}

TEST(Quantity, CanonicalForm) {
  const std::vector<std::pair<std::string_view, std::string_view>> table = {
      {"0", "0"},
      {"0Gi", "0"},
      {"-0", "0"},
      {"1", "1"},
      {"+1", "1"},
      {"007", "7"},
      {"1000", "1k"},
      {"1024", "1024"},
      {"1024Ki", "1Mi"},
      {"10Gi", "10Gi"},
      {"1536Mi", "1536Mi"},
      {"1.5Gi", "1536Mi"},
      {"0.5Ki", "512"},
      {"1000Ki", "1000Ki"},
      {"1Ki", "1Ki"},
      {"-1Ki", "-1Ki"},
      {"0.1Ki", "102400m"},
      {"1000m", "1"},
      {"1500m", "1500m"},
      {"0.5", "500m"},
      {".5", "500m"},
      {"5.", "5"},
      {"1.250", "1250m"},
      {"1e3", "1e3"},
      {"1E3", "1e3"},
      {"1e-3", "1e-3"},
      {"12e2", "1200"},
      {"12e4", "120e3"},
      {"1E", "1E"},
      {"1e0", "1"},
      {"100u", "100u"},
      {"1000000n", "1m"},
      {"-1.5", "-1500m"},
      // Finer than 10^-9: away from zero.
      {"0.0000000001", "1n"},
      {"-0.0000000001", "-1n"},
      {"1.0000000001", "1000000001n"},
      {"1e-30", "1e-9"},
      {"0.1n", "1n"},
      {"0.00000000000000000000000000000000000000000000000001Ei", "1n"},
      // Larger than 2^63-1: the bound.
      {"9223372036854775807", "9223372036854775807"},
      {"9223372036854775808", "9223372036854775807"},
      {"10E", "9223372036854775807"},
      {"8Ei", "9223372036854775807"},
      {"-8Ei", "-9223372036854775807"},
      {"1e10000", "9223372036854775807e0"},
      {"7Ei", "7Ei"},
      {"100000000000000000000000000000000000000000000000000", "9223372036854775807"},
  };
  for (const auto& [text, canonical] : table) {
    std::string expected(canonical);
    if (expected.ends_with("e0")) expected.resize(expected.size() - 2);
    EXPECT_EQ(Q(text).Canonical(), expected) << text;
    EXPECT_EQ(Q(text).Text(), text);  // what was read stays as it was
  }
}

TEST(Quantity, RefusesWhatIsNone) {
  for (std::string_view text :
       {"",     " ",  "1 ",  " 1",   "Gi", ".",    "-",   "+",   "--1", "1..5", "1.5.5", "1gi",   "1ki",      "1K",
        "1Kii", "1e", "1e+", "1e3x", "e3", "0x10", "1,5", "1mm", "1i",  "NaN",  "Inf",   "1_000", "1\xc2\xb5"}) {
    auto quantity = Quantity::Parse(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_THAT(std::string(quantity.status().message()), ::testing::HasSubstr("expected a quantity such as"));
  }
  EXPECT_FALSE(Quantity::Parse(std::string(1000, '1')).ok());
}

TEST(Quantity, EqualByAmount) {
  EXPECT_EQ(Q("1"), Q("1000m"));
  EXPECT_EQ(Q("1Gi"), Q("1073741824"));
  EXPECT_EQ(Q("1e3"), Q("1k"));
  EXPECT_LT(Q("1G"), Q("1Gi"));
  EXPECT_LT(Q("-1"), Q("0"));
  EXPECT_TRUE(Q("-1n").IsNegative());
}

TEST(Quantity, Numbers) {
  EXPECT_EQ(Q("1.5").Units(), 2);  // away from zero, as Kubernetes has it
  EXPECT_EQ(Q("-1.5").Units(), -2);
  EXPECT_EQ(Q("1.5").Milli(), 1500);
  EXPECT_EQ(Q("1u").Milli(), 1);
  EXPECT_EQ(Q("10Gi").Units(), int64_t{10} << 30);
  EXPECT_EQ(Q("100E").Milli(), INT64_MAX);
  EXPECT_DOUBLE_EQ(Q("312.5").Double(), 312.5);
  EXPECT_DOUBLE_EQ(Q("-0.25").Double(), -0.25);
  EXPECT_EQ(Quantity(INT64_MIN), Q("-9223372036854775807"));
}

TEST(Quantity, Arithmetic) {
  EXPECT_EQ((Q("10Gi") + Q("512Mi")).Text(), "10752Mi");
  EXPECT_EQ((Q("0") + Q("512Mi")).Text(), "512Mi");  // the form of the one that is not 0
  EXPECT_EQ((Q("1Gi") - Q("1Gi")).Text(), "0");
  EXPECT_EQ((Q("100") - Q("0.5")).Text(), "99500m");
  EXPECT_EQ((Q("1Gi") + Q("100m")).Text(), "1073741824100m");
  EXPECT_EQ((Q("312") * 8).Text(), "2496");
  EXPECT_EQ((-Q("2")).Text(), "-2");
  EXPECT_EQ(Q("312").Percent(25).Text(), "78");
  EXPECT_EQ(Q("80Gi").Percent(50).Text(), "40Gi");
  EXPECT_EQ((Q("8E") + Q("8E")).Units(), INT64_MAX);
  EXPECT_EQ((Q("8E") * INT64_MAX).Units(), INT64_MAX);
  EXPECT_EQ((Q("-8E") * INT64_MAX).Units(), -INT64_MAX);
  EXPECT_EQ(Q("8E").Percent(INT64_MAX).Units(), INT64_MAX);
  Quantity sum;
  sum += Q("100m");
  sum -= Q("50m");
  EXPECT_EQ(sum.Text(), "50m");
}

// The canonical form of any amount reads back as the same amount and is its own canonical form.
TEST(Quantity, CanonicalReadsBack) {
  std::mt19937_64 random(1);
  const std::string_view suffixes[] = {"",   "n",  "u",  "m",  "k",  "M",  "G",  "T",   "P",   "E",  "Ki",
                                       "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E5", "e-7", "e-2", "E-9"};
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 4 == 0 ? "-" : "";
    for (uint64_t n = random() % 20; n > 0; --n) text.push_back(static_cast<char>('0' + random() % 10));
    text.push_back(static_cast<char>('0' + random() % 10));
    if (random() % 2 == 0) {
      text.push_back('.');
      for (uint64_t n = random() % 14; n > 0; --n) text.push_back(static_cast<char>('0' + random() % 10));
    }
    text += suffixes[random() % std::size(suffixes)];
    const Quantity quantity = Q(text);
    const Quantity again = Q(quantity.Canonical());
    ASSERT_EQ(again, quantity) << text << " " << quantity.Canonical();
    ASSERT_EQ(again.Canonical(), quantity.Canonical()) << text;
  }
}

// Against whole numbers of 10^-9: what stays inside 64 bits is exact.
TEST(Quantity, SumsAreExact) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const int64_t a = static_cast<int64_t>(random() % 2'000'000'000'000) - 1'000'000'000'000;
    const int64_t b = static_cast<int64_t>(random() % 2'000'000'000'000) - 1'000'000'000'000;
    const Quantity qa = Q(std::to_string(a) + "n");
    const Quantity qb = Q(std::to_string(b) + "n");
    ASSERT_EQ(qa + qb, Q(std::to_string(a + b) + "n"));
    ASSERT_EQ(qa - qb, Q(std::to_string(a - b) + "n"));
    ASSERT_EQ(qa < qb, a < b);
  }
}

// A fraction of a binary unit is that unit's bytes, rounded away from zero at 10^-9.
TEST(Quantity, BinaryFractions) {
  for (int64_t n = 1; n < 2000; ++n) {
    const std::string text = std::to_string(n / 1000) + "." + std::to_string(1000 + n % 1000).substr(1) + "Mi";
    EXPECT_EQ(Q(text), Quantity::FromMilli(n * 1048576)) << text;
  }
}

}  // namespace
}  // namespace tf::api
