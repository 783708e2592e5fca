#include "base/encoding.h"

#include <gtest/gtest.h>

#include <random>

namespace tf {
namespace {

TEST(Base64Url, VectorsOfTheRfcWithoutPadding) {
  const std::pair<const char*, const char*> vectors[] = {
      {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
      {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xff\xef\xbe", "_---"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(Base64UrlEncode(bytes), text);
    EXPECT_EQ(Base64UrlDecode(text), bytes);
  }
}

TEST(Base64Url, RefusesEveryOtherSpelling) {
  for (const char* text : {"Zg==", "Zg=", "Z", "Zh", "Zm9", "Zm9v Yg", "Zm9v\n", "+/+/", "Zm9vY", "Zm9v.", "\x80gAA"}) {
    EXPECT_EQ(Base64UrlDecode(text), std::nullopt) << text;
  }
}

TEST(Hex, LowerCaseAndWholeBytesOnly) {
  EXPECT_EQ(HexEncode(std::string("\0\x7f\xff", 3)), "007fff");
  EXPECT_EQ(HexDecode("007fff"), std::string("\0\x7f\xff", 3));
  for (const char* text : {"0", "0g", "FF", "0x00", "00 "}) EXPECT_EQ(HexDecode(text), std::nullopt) << text;
}

TEST(Encoding, RandomBytesRoundTrip) {
  std::mt19937 random(1);
  for (size_t length = 0; length < 200; ++length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(Base64UrlDecode(Base64UrlEncode(bytes)), bytes);
    EXPECT_EQ(HexDecode(HexEncode(bytes)), bytes);
  }
}

}  // namespace
}  // namespace tf
