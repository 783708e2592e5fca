#include "license/license.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "license/test_licenses.h"

namespace tf::license {
namespace {

using testing::HasSubstr;

constexpr char kHead[] = "tf1;kid=k;id=i;customer=c;edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z";

TEST(LicenseText, IsTheDocumentedLine) {
  EXPECT_EQ(*WriteText(MinimalLicense()),
            "tf1;kid=test-key;id=lic-7f3a;customer=Example%20AG;edition=enterprise;issued=2026-11-30T00:00:00Z;"
            "expires=2027-11-30T00:00:00Z");
  EXPECT_EQ(*WriteText(FullLicense()),
            "tf1;kid=test-key;id=lic-7f3a;customer=Gr%C3%B6%C3%9Fe%3B%20100%25%20%26%20S%C3%B6hne;edition=enterprise;"
            "issued=2026-11-30T00:00:00Z;expires=2027-11-30T00:00:00Z;not-before=2026-12-24T18:00:00Z;grace=14d;"
            "max-gpus=64;gpus=GPU-6f000000-1111-2222-3333-4444aaaabbbb,GPU-b2000000-1111-2222-3333-4444aaaabbbb;"
            "features=console,rdma");
  EXPECT_EQ(*ReadFields(*WriteText(FullLicense())), FullLicense());
}

TEST(LicenseText, ReadsTheShortestText) {
  const OrRefusal<License> license = ReadFields(kHead);
  ASSERT_TRUE(license.ok());
  EXPECT_EQ(license->grace_days, 0);
  EXPECT_EQ(license->max_gpus, std::nullopt);
  EXPECT_EQ(license->not_before, std::nullopt);
  EXPECT_TRUE(license->gpus.empty());
}

TEST(LicenseText, RefusesWhatIsNoLicence) {
  const std::string head = kHead;
  const std::string gpu = kGpuA;
  const std::string wrong[] = {
      "",
      "tf1",
      "tf1;",
      "tf1;kid=k",
      "tf2;kid=k;id=i",
      ";" + head,
      head + ";",
      head + ";;grace=1d",
      head + ";colour=red",              // unknown
      head + ";grace=1d;grace=1d",       // repeated
      head + ";id=i",                    // repeated, required
      head + ";max-gpus=1;grace=1d",     // reordered
      head + ";features=a;gpus=" + gpu,  // reordered
      head + ";grace",                   // no value
      head + ";grace=",                  // empty value
      head + ";Grace=1d",                // keys have one case
      head + ";grace=14",                // no unit
      head + ";grace=d",
      head + ";grace=0d",
      head + ";grace=014d",
      head + ";grace=+1d",
      head + ";grace=-1d",
      head + ";grace=1.5d",
      head + ";grace=3651d",
      head + ";grace=99999999999999999999d",
      head + ";max-gpus=0",
      head + ";max-gpus=2147483648",
      head + ";max-gpus=1e3",
      head + ";gpus=" + gpu + ",",
      head + ";gpus=,",
      head + ";gpus=GPU-6f",
      head + ";features=a,,b",
      head + ";features=a+b",
      head + ";not-before=2027-01-01T00:00:00Z",  // not before it expires
      "tf1;id=i;kid=k;customer=c;edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z",
      "tf1;kid=k;id=i;customer=c;edition=e;expires=2027-01-01T00:00:00Z;issued=2026-01-01T00:00:00Z",
      "tf1;kid=k;id=i;customer=c;edition=e;issued=2026-01-01T00:00:00Z",
      "tf1;kid=k;id=i;customer=c;edition=e;issued=2027-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z",
      "tf1;kid=k;kid=k;id=i;customer=c;edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z",
      "tf1;kid=;id=i;customer=c;edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z",
      "tf1;kid=k;id=a=b;customer=c;edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z",
  };
  for (const std::string& text : wrong) {
    const OrRefusal<License> license = ReadFields(text);
    ASSERT_FALSE(license.ok()) << text;
    EXPECT_EQ(license.refusal().reason, Reason::kMalformedText) << text;
  }
}

TEST(LicenseText, EveryOrderOfEveryTwoFieldsButOneIsRefused) {
  const std::string text = *WriteText(FullLicense());
  std::vector<std::string> fields;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(';', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
  }
  ASSERT_EQ(fields.size(), 12u);
  const auto join = [](const std::vector<std::string>& parts) {
    std::string joined = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) joined += ";" + parts[i];
    return joined;
  };
  ASSERT_TRUE(ReadFields(join(fields)).ok());
  for (size_t i = 0; i < fields.size(); ++i) {
    for (size_t k = i + 1; k < fields.size(); ++k) {
      std::vector<std::string> changed = fields;
      std::swap(changed[i], changed[k]);
      EXPECT_FALSE(ReadFields(join(changed)).ok()) << join(changed);
    }
    std::vector<std::string> repeated = fields;
    repeated.insert(repeated.begin() + static_cast<long>(i), fields[i]);
    EXPECT_FALSE(ReadFields(join(repeated)).ok()) << join(repeated);
  }
}

TEST(LicenseText, CharactersThatDoNotSurviveAShellAreRefused) {
  for (int c = 0; c < 256; ++c) {
    const std::string text = std::string(kHead) + ";features=a" + static_cast<char>(c);
    const bool allowed = ReadKid(text).ok();
    EXPECT_EQ(allowed, c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\' && c != '$' && c != '`') << c;
  }
}

TEST(LicenseText, NulIsRefusedAnywhere) {
  const std::string text = *WriteText(FullLicense());
  for (size_t i = 0; i <= text.size(); ++i) {
    std::string changed = text;
    changed.insert(i, 1, '\0');
    EXPECT_FALSE(ReadKid(changed).ok()) << i;
  }
}

TEST(LicenseText, SixteenKibibytesAndNotOneMore) {
  License license = MinimalLicense();
  license.customer.assign(kMaxTextBytes, 'x');
  EXPECT_FALSE(WriteText(license).ok());
  license.customer = "x";
  license.customer.assign(1 + kMaxTextBytes - WriteText(license)->size(), 'x');
  const std::string text = *WriteText(license);
  EXPECT_EQ(text.size(), kMaxTextBytes);
  EXPECT_EQ(*ReadFields(text), license);
  std::string longer = text;
  longer.insert(text.find("xxx"), 1, 'x');
  const OrRefusal<License> refused = ReadFields(longer);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.refusal().reason, Reason::kMalformedText);
  EXPECT_THAT(refused.refusal().text, HasSubstr("16385 bytes"));
}

TEST(LicenseText, CustomerIsPrintableUtf8) {
  const auto reads = [](const std::string& customer) {
    return ReadFields("tf1;kid=k;id=i;customer=" + customer +
                      ";edition=e;issued=2026-01-01T00:00:00Z;expires=2027-01-01T00:00:00Z")
        .ok();
  };
  for (const char* good : {"c", "%41", "%c3%B6", "%F0%9F%98%80", "a=b", "%EF%BF%BD", "%3B"})
    EXPECT_TRUE(reads(good)) << good;
  for (const char* bad : {"%", "%4", "%4g", "%00", "%0A", "%1B", "%7F", "%C2%85", "%80", "%C3", "%C0%80", "%E0%80%80",
                          "%ED%A0%80", "%F4%90%80%80", "%FF", "%C3%C3"}) {
    EXPECT_FALSE(reads(bad)) << bad;
  }
}

TEST(LicenseText, WriteNamesWhatCannotBeWritten) {
  const auto error = [](auto change) {
    License license = FullLicense();
    change(license);
    return std::string(WriteText(license).status().message());
  };
  EXPECT_THAT(error([](License& l) { l.id = "a;b"; }), HasSubstr("'id'"));
  EXPECT_THAT(error([](License& l) { l.customer = ""; }), HasSubstr("'customer'"));
  EXPECT_THAT(error([](License& l) { l.customer = "two\nlines"; }), HasSubstr("'customer'"));
  EXPECT_THAT(error([](License& l) { l.edition = "ent;grace=9d"; }), HasSubstr("'edition'"));
  EXPECT_THAT(error([](License& l) { l.grace_days = -1; }), HasSubstr("'grace'"));
  EXPECT_THAT(error([](License& l) { l.max_gpus = 0; }), HasSubstr("'max-gpus'"));
  EXPECT_THAT(error([](License& l) { l.gpus = {"GPU-1"}; }), HasSubstr("'gpus'"));
  EXPECT_THAT(error([](License& l) { l.features = {"a,b", ""}; }), HasSubstr("'features'"));
  EXPECT_THAT(error([](License& l) { l.expires = l.issued; }), HasSubstr("expires"));
  EXPECT_THAT(error([](License& l) { l.expires = absl::InfiniteFuture(); }), HasSubstr("'expires'"));
  EXPECT_THAT(error([](License& l) { l.issued += absl::Milliseconds(1); }), HasSubstr("whole seconds"));
}

TEST(Instant, IsOneSpellingOfARealUtcSecond) {
  EXPECT_EQ(ParseInstant("1970-01-01T00:00:00Z"), absl::UnixEpoch());
  EXPECT_EQ(ParseInstant("2028-02-29T23:59:59Z"), absl::FromUnixSeconds(1835481599));
  for (const char* text :
       {"2027-02-29T00:00:00Z", "2027-13-01T00:00:00Z", "2027-00-01T00:00:00Z", "2027-01-32T00:00:00Z",
        "2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:60Z", "2027-01-01t00:00:00z",
        "2027-01-01 00:00:00Z", "2027-01-01T00:00:00+00:00", "2027-01-01T00:00:00.5Z", "2027-01-01T00:00Z",
        "2027-01-01", "+027-01-01T00:00:00Z", " 2027-01-01T00:00:00Z", "2027-01-01T00:00:00", ""}) {
    EXPECT_EQ(ParseInstant(text), std::nullopt) << text;
  }
}

TEST(GpuUuid, OneSpelling) {
  for (const char* text : {"GPU-6f000000-1111-2222-3333-4444aaaabbbb", "gpu-6F000000-1111-2222-3333-4444AAAABBBB",
                           "  GPU-6f000000-1111-2222-3333-4444aaaabbbb\n", "6f000000-1111-2222-3333-4444aaaabbbb"}) {
    EXPECT_EQ(NormaliseGpuUuid(text), kGpuA) << text;
  }
  EXPECT_EQ(NormaliseGpuUuid("mig-6F000000-1111-2222-3333-4444aaaabbbb"), "MIG-6f000000-1111-2222-3333-4444aaaabbbb");
  for (const char* text : {"", " ", "GPU-", "GPU-6f", "GPU-6f000000-1111-2222-3333-4444aaaabbb",
                           "GPU-6f000000-1111-2222-3333-4444aaaabbbb0", "GPU-6f000000-1111-2222-3333_4444aaaabbbb",
                           "GPU-gf000000-1111-2222-3333-4444aaaabbbb", "CPU-6f000000-1111-2222-3333-4444aaaabbbb"}) {
    EXPECT_EQ(NormaliseGpuUuid(text), std::nullopt) << text;
  }
}

TEST(LicenseText, RandomLicencesRoundTrip) {
  std::mt19937_64 random(20261130);
  const auto below = [&random](uint64_t bound) { return random() % bound; };
  const auto token = [&below] {
    std::string text(1 + below(64), ' ');
    for (char& c : text) c = "ABCXYZabcxyz0129._-"[below(19)];
    return text;
  };
  const auto uuid = [&below] {
    std::string text = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    for (char& c : text) {
      if (c == 'x') c = "0123456789abcdef"[below(16)];
    }
    return text;
  };
  constexpr const char* kLetters[] = {"a", "Z", " ", ";", "=", "%", "\"", "$", "ö", "漢", "😀", "\xc2\xa0"};
  for (int round = 0; round < 3000; ++round) {
    License license;
    license.kid = token();
    license.id = token();
    license.edition = token();
    for (size_t i = 0, n = 1 + below(30); i < n; ++i) license.customer += kLetters[below(std::size(kLetters))];
    license.issued = absl::FromUnixSeconds(static_cast<int64_t>(below(100'000'000'000)));
    license.expires = license.issued + absl::Seconds(1 + below(100'000'000'000));
    if (below(2)) license.not_before = license.expires - absl::Seconds(1 + below(1'000'000));
    if (below(2)) license.grace_days = static_cast<int>(1 + below(kMaxGraceDays));
    if (below(2)) license.max_gpus = static_cast<int>(1 + below(2147483647));
    std::set<std::string> gpus;
    for (size_t i = below(5); i > 0; --i) gpus.insert(uuid());
    license.gpus.assign(gpus.begin(), gpus.end());
    for (size_t i = below(4); i > 0; --i) license.features.push_back(token());

    const absl::StatusOr<std::string> text = WriteText(license);
    ASSERT_TRUE(text.ok()) << text.status();
    const OrRefusal<License> again = ReadFields(*text);
    ASSERT_TRUE(again.ok()) << *text << again.refusal().text;
    EXPECT_EQ(*again, license) << *text;
  }
}

}  // namespace
}  // namespace tf::license
