#include "license/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "absl/strings/str_cat.h"
#include "license/test_licenses.h"

namespace tf::license {
namespace {

using testing::HasSubstr;
using testing::Not;

using Gpus = absl::StatusOr<std::vector<std::string>>;

OrRefusal<License> ParseAndVerify(const std::string& text, const std::string& signature,
                                  const Keyring& ring = TestRing()) {
  const OrRefusal<SignedText> parsed = Parse(text, signature);
  if (!parsed.ok()) return parsed.refusal();
  return Verify(*parsed, ring);
}

std::string CodeOf(const OrRefusal<License>& license) {
  return license.ok() ? "passed" : std::string(ReasonCode(license.refusal().reason));
}

KnownTimes Built(const char* time) { return {At(time), std::nullopt}; }

std::string CodeOf(const License& license, const char* now, const KnownTimes& known = Built("2026-11-30T00:00:00Z"),
                   const Gpus& gpus = std::vector<std::string>{kGpuA}) {
  const OrRefusal<Verdict> verdict = Evaluate(license, At(now), gpus, known);
  if (!verdict.ok()) return std::string(ReasonCode(verdict.refusal().reason));
  return verdict->state == State::kValid ? "valid" : absl::StrCat("grace ", verdict->grace_days_left);
}

TEST(ParseAndVerify, AcceptsWhatWasIssued) {
  for (const License& license : {MinimalLicense(), FullLicense()}) {
    const Issued issued = IssueForTest(license);
    EXPECT_EQ(issued.signature.size(), 86u);
    const OrRefusal<License> read = ParseAndVerify(issued.text, issued.signature);
    ASSERT_TRUE(read.ok()) << read.refusal().text;
    EXPECT_EQ(*read, license);
  }
}

TEST(ParseAndVerify, BlanksAndByteOrderMarksMeanNothing) {
  const Issued issued = IssueForTest(FullLicense());
  const auto wrap = [](const std::string& text, const std::string& blank, size_t width) {
    std::string wrapped;
    for (size_t i = 0; i < text.size(); i += width) wrapped += text.substr(i, width) + blank;
    return wrapped;
  };
  for (const char* blank : {" ", "\n", "\r\n", "\t", "\v\f", "\n    ", "\xef\xbb\xbf", " \xef\xbb\xbf\n"}) {
    for (size_t width : {1, 7, 64, 100000}) {
      EXPECT_EQ(CodeOf(ParseAndVerify(wrap(issued.text, blank, width), wrap(issued.signature, blank, width))), "passed")
          << width;
    }
  }
  EXPECT_EQ(CodeOf(ParseAndVerify("\xef\xbb\xbf" + issued.text, "\xef\xbb\xbf\r\n" + issued.signature)), "passed");
  // Blanks of other alphabets, and half a mark, are not blanks.
  for (const char* other : {"\xc2\xa0", "\xe2\x80\x8b", "\xef\xbb", "\xef \xbb\xbf", "\x85", "\x1c"}) {
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text + other, issued.signature)), "malformed_text") << other;
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, issued.signature + other)), "malformed_signature") << other;
  }
}

TEST(ParseAndVerify, MissingStrings) {
  const Issued issued = IssueForTest(MinimalLicense());
  for (const char* nothing : {"", " \r\n", "\xef\xbb\xbf"}) {
    EXPECT_EQ(CodeOf(ParseAndVerify(nothing, issued.signature)), "missing_text");
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, nothing)), "missing_signature");
    EXPECT_EQ(CodeOf(ParseAndVerify(nothing, nothing)), "missing_text");
  }
}

bool IsBlank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

TEST(ParseAndVerify, EveryChangeOfOneByteOfTheTextIsRefused) {
  const Keyring ring = TestRing();
  for (const License& license : {MinimalLicense(), FullLicense()}) {
    const Issued issued = IssueForTest(license);
    // Every value for the short text; for the long one those that differ in one bit.
    const bool every_value = license == MinimalLicense();
    for (size_t i = 0; i < issued.text.size(); ++i) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = issued.text;
        if (!every_value && !std::has_single_bit(static_cast<unsigned>(static_cast<uint8_t>(changed[i]) ^ value)))
          continue;
        if (static_cast<uint8_t>(changed[i]) == value) continue;
        changed[i] = static_cast<char>(value);
        EXPECT_FALSE(ParseAndVerify(changed, issued.signature, ring).ok()) << i << " " << value;
      }
      std::string shorter = issued.text;
      shorter.erase(i, 1);
      EXPECT_FALSE(ParseAndVerify(shorter, issued.signature, ring).ok()) << i;
      EXPECT_FALSE(ParseAndVerify(issued.text.substr(0, i), issued.signature, ring).ok()) << i;
      std::string doubled = issued.text;
      doubled.insert(i, 1, issued.text[i]);
      EXPECT_FALSE(ParseAndVerify(doubled, issued.signature, ring).ok()) << i;
    }
  }
}

TEST(ParseAndVerify, EveryChangeOfOneByteOfTheSignatureIsRefused) {
  const Issued issued = IssueForTest(FullLicense());
  const Keyring ring = TestRing();
  for (size_t i = 0; i < issued.signature.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = issued.signature;
      if (static_cast<uint8_t>(changed[i]) == value) continue;
      changed[i] = static_cast<char>(value);
      EXPECT_FALSE(ParseAndVerify(issued.text, changed, ring).ok()) << i << " " << value;
      if (IsBlank(static_cast<uint8_t>(value))) continue;
      changed = issued.signature;
      changed.insert(i, 1, static_cast<char>(value));
      EXPECT_FALSE(ParseAndVerify(issued.text, changed, ring).ok()) << i << " " << value;
    }
    EXPECT_FALSE(ParseAndVerify(issued.text, issued.signature.substr(0, i), ring).ok()) << i;
  }
}

TEST(ParseAndVerify, EveryFlippedBitOfTheDecodedSignatureIsABadSignature) {
  const Issued issued = IssueForTest(MinimalLicense());
  const std::string bytes = *Base64UrlDecode(issued.signature);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, Base64UrlEncode(changed))), "bad_signature") << bit;
  }
}

TEST(ParseAndVerify, OtherSpellingsOfTheSignatureAreMalformed) {
  const Issued issued = IssueForTest(MinimalLicense());
  const std::string sign = issued.signature;
  // The last character has four bits that belong to no byte; all its other 15 values decode to the same 64 bytes
  // elsewhere.
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const size_t last = digits.find(sign.back());
  ASSERT_EQ(last % 16, 0u);
  for (size_t low = 1; low < 16; ++low) {
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, sign.substr(0, 85) + digits[last + low])), "malformed_signature");
  }
  for (const std::string& spelling :
       {sign + "==", sign + "=", sign + "A", sign.substr(0, 85), sign + sign, "\"" + sign + "\"", std::string(86, '='),
        std::string(86, '+'), sign.substr(0, 85) + std::string(1, '\0'), std::string(1 << 20, 'A')}) {
    EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, spelling)), "malformed_signature") << spelling.substr(0, 100);
  }
}

TEST(ParseAndVerify, PairsThatDoNotBelongTogether) {
  const Issued one = IssueForTest(MinimalLicense());
  const Issued two = IssueForTest(FullLicense());
  EXPECT_EQ(CodeOf(ParseAndVerify(one.text, two.signature)), "bad_signature");
  EXPECT_EQ(CodeOf(ParseAndVerify(one.signature, one.text)), "malformed_text");
  EXPECT_THAT(ParseAndVerify(one.signature, one.text).refusal().text, HasSubstr("exchanged"));
  // A signature over the bare text, without the line that says what it is for.
  const Signature bare = *TestKey().Sign(one.text);
  EXPECT_EQ(
      CodeOf(ParseAndVerify(one.text, Base64UrlEncode({reinterpret_cast<const char*>(bare.data()), bare.size()}))),
      "bad_signature");
}

TEST(ParseAndVerify, KeysThatAreNotTrusted) {
  const SigningKey stranger = *SigningKey::Generate("stranger");
  const Issued foreign = *Issue(MinimalLicense(), stranger);
  const OrRefusal<License> refused = ParseAndVerify(foreign.text, foreign.signature);
  EXPECT_EQ(CodeOf(refused), "unknown_key");
  EXPECT_THAT(refused.refusal().text, HasSubstr("'stranger'"));
  EXPECT_THAT(refused.refusal().text, HasSubstr("test-key"));
  // The name of a trusted key does not help another key.
  const SigningKey impostor = *SigningKey::Generate("test-key");
  const Issued forged = *Issue(MinimalLicense(), impostor);
  EXPECT_EQ(CodeOf(ParseAndVerify(forged.text, forged.signature)), "bad_signature");
}

TEST(ParseAndVerify, NothingButTheKeyIdIsReadBeforeTheSignatureHolds) {
  const std::string nonsense = "tf1;kid=test-key;what=is=this;;expires=never";
  EXPECT_EQ(CodeOf(ParseAndVerify(nonsense, std::string(86, 'A'))), "bad_signature");
  const Issued issued = SignForTest(nonsense);
  EXPECT_EQ(CodeOf(ParseAndVerify(issued.text, issued.signature)), "malformed_text");
}

TEST(ParseAndVerify, SixteenKibibytesAfterBlanks) {
  License license = MinimalLicense();
  license.customer.assign(1 + kMaxTextBytes - WriteText(license)->size(), 'x');
  license.customer += std::string(kMaxTextBytes - WriteText(license)->size(), 'x');
  const Issued issued = IssueForTest(license);
  ASSERT_EQ(issued.text.size(), kMaxTextBytes);
  EXPECT_EQ(CodeOf(ParseAndVerify(issued.text + "\n", issued.signature)), "passed");
  EXPECT_EQ(CodeOf(ParseAndVerify(issued.text + "x", issued.signature)), "malformed_text");
  const Issued longer = SignForTest(issued.text + "x");
  EXPECT_EQ(CodeOf(ParseAndVerify(longer.text, longer.signature)), "malformed_text");
}

TEST(ParseAndVerify, MessagesNeverContainTheKey) {
  const Issued issued = IssueForTest(FullLicense());
  std::mt19937 random(7);
  const auto mutate = [&random](std::string text) {
    text[random() % text.size()] = static_cast<char>(random());
    return text;
  };
  const std::string body = issued.text.substr(issued.text.find(";id="), 40);
  for (int i = 0; i < 2000; ++i) {
    const OrRefusal<License> license = i % 2 == 0 ? ParseAndVerify(mutate(issued.text), issued.signature)
                                                  : ParseAndVerify(issued.text, mutate(issued.signature));
    if (license.ok()) continue;  // the random byte was the old one
    EXPECT_THAT(license.refusal().text, Not(HasSubstr("lic-7f3a")));
    EXPECT_THAT(license.refusal().text, Not(HasSubstr(issued.signature.substr(0, 12))));
    EXPECT_THAT(license.refusal().text, Not(HasSubstr(issued.signature.substr(74))));
    EXPECT_TRUE(std::all_of(license.refusal().text.begin(), license.refusal().text.end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << "one printable line";
  }
}

TEST(Dates, Edges) {
  License license = MinimalLicense();
  license.not_before = At("2026-12-24T18:00:00Z");
  license.grace_days = 14;
  EXPECT_EQ(CodeOf(license, "2026-12-24T17:59:59Z"), "not_yet_valid");
  EXPECT_EQ(CodeOf(license, "2026-12-24T18:00:00Z"), "valid");
  EXPECT_EQ(CodeOf(license, "2027-11-29T23:59:59Z"), "valid");
  EXPECT_EQ(CodeOf(license, "2027-11-30T00:00:00Z"), "grace 14");
  EXPECT_EQ(CodeOf(license, "2027-11-30T00:00:01Z"), "grace 14");
  EXPECT_EQ(CodeOf(license, "2027-12-01T00:00:00Z"), "grace 13");
  EXPECT_EQ(CodeOf(license, "2027-12-13T00:00:00Z"), "grace 1");
  EXPECT_EQ(CodeOf(license, "2027-12-13T23:59:59Z"), "grace 1");
  EXPECT_EQ(CodeOf(license, "2027-12-14T00:00:00Z"), "expired");
  EXPECT_EQ(CodeOf(license, "9999-12-31T23:59:59Z"), "expired");
  license.grace_days = 0;
  EXPECT_EQ(CodeOf(license, "2027-11-29T23:59:59Z"), "valid");
  EXPECT_EQ(CodeOf(license, "2027-11-30T00:00:00Z"), "expired");
  license.expires = At("9999-12-31T23:59:59Z");
  license.grace_days = kMaxGraceDays;
  EXPECT_EQ(CodeOf(license, "9999-12-31T23:59:59Z"), "grace 3650");
}

TEST(Dates, MessagesSayWhenAndWhat) {
  License license = MinimalLicense();
  const auto text = [&license](const char* now) {
    return EvaluateDates(license, At(now), Built("2026-11-30T00:00:00Z")).refusal().text;
  };
  EXPECT_EQ(text("2028-01-01T00:00:00Z"),
            "checking the dates: the licence expired 2027-11-30T00:00:00Z, and the clock says 2028-01-01T00:00:00Z; "
            "install a renewed licence");
  license.grace_days = 14;
  EXPECT_THAT(text("2028-01-01T00:00:00Z"), HasSubstr("its grace of 14 days is over"));
}

TEST(Dates, ClockRollBack) {
  const License license = MinimalLicense();
  // Issued 2026-11-30T00:00:00Z: a day of tolerance.
  EXPECT_EQ(CodeOf(license, "2026-11-29T00:00:00Z", Built("2026-01-01T00:00:00Z")), "valid");
  EXPECT_EQ(CodeOf(license, "2026-11-28T23:59:59Z", Built("2026-01-01T00:00:00Z")), "clock_rolled_back");
  // Built.
  EXPECT_EQ(CodeOf(license, "2027-04-30T00:00:00Z", Built("2027-05-01T00:00:00Z")), "valid");
  EXPECT_EQ(CodeOf(license, "2027-04-29T23:59:59Z", Built("2027-05-01T00:00:00Z")), "clock_rolled_back");
  // Last accepted on this node.
  KnownTimes known = Built("2026-11-30T00:00:00Z");
  known.last_trusted = TrustedTime{At("2027-06-01T12:00:00Z"), "remove the file /x"};
  EXPECT_EQ(CodeOf(license, "2027-05-31T12:00:00Z", known), "valid");
  EXPECT_EQ(CodeOf(license, "2027-05-31T11:59:59Z", known), "clock_rolled_back");
  EXPECT_EQ(EvaluateDates(license, At("2027-05-01T00:00:00Z"), known).refusal().text,
            "checking the dates: the clock says 2027-05-01T00:00:00Z, but this node accepted a licence "
            "2027-06-01T12:00:00Z; set the clock of this machine, or, if it was ahead then and is right now, clear the "
            "stored time: remove the file /x");
  // It comes before what the wrong clock would say of the dates.
  License later = license;
  later.not_before = At("2027-01-01T00:00:00Z");
  EXPECT_EQ(CodeOf(later, "2026-12-01T00:00:00Z", known), "clock_rolled_back");
}

TEST(BoundGpus, AreASetOfNormalisedUuids) {
  License license = MinimalLicense();
  license.gpus = {kGpuA, kGpuB};
  const auto code = [&license](const Gpus& gpus) {
    return CodeOf(license, "2027-01-01T00:00:00Z", Built("2026-11-30T00:00:00Z"), gpus);
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(code(List{kGpuA}), "valid");
  EXPECT_EQ(code(List{kGpuB, kGpuA}), "valid");
  EXPECT_EQ(code(List{kGpuA, kGpuA}), "valid");
  EXPECT_EQ(code(List{"gpu-B2000000-1111-2222-3333-4444AAAABBBB\n"}), "valid");
  EXPECT_EQ(code(List{kGpuA, kGpuB, kGpuC}), "gpu_not_licensed");
  EXPECT_EQ(code(List{"Tesla"}), "gpu_not_licensed");
  EXPECT_EQ(code(List{}), "gpu_list_unavailable");
  EXPECT_EQ(code(absl::UnavailableError("no driver")), "gpu_list_unavailable");

  const std::string text = EvaluateGpus(license, List{kGpuC, kGpuA, "Tesla"})->text;
  EXPECT_THAT(text, HasSubstr(std::string(kGpuC) + ", Tesla;"));
  EXPECT_THAT(text, Not(HasSubstr(kGpuA)));
  EXPECT_THAT(EvaluateGpus(license, absl::UnavailableError("no driver"))->text, HasSubstr("(no driver)"));

  license.gpus.clear();
  EXPECT_EQ(code(absl::UnavailableError("no driver")), "valid");
  EXPECT_EQ(code(List{kGpuC}), "valid");
}

TEST(BoundGpus, AreNormalisedAndSortedInATextToo) {
  const std::string text =
      *WriteText(MinimalLicense()) + ";gpus=gpu-B2000000-1111-2222-3333-4444AAAABBBB," + kGpuA + "," + kGpuB;
  const Issued issued = SignForTest(text);
  EXPECT_EQ(ParseAndVerify(issued.text, issued.signature)->gpus, (std::vector<std::string>{kGpuA, kGpuB}));
}

}  // namespace
}  // namespace tf::license
