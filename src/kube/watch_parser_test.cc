#include "kube/watch_parser.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kube/error.h"

namespace tf::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Event(std::string_view type, std::string_view name) {
  return absl::StrCat(R"({"type":")", std::string(type), R"(","object":{"kind":"Pod","metadata":{"name":")",
                      std::string(name), "\"}}}\n");
}

std::string Letter(WatchEvent::Type type) { return std::string(1, "AMDB"[static_cast<int>(type)]); }

std::vector<std::string> ParseInPieces(const std::string& stream, size_t piece) {
  std::vector<std::string> names;
  WatchParser parser([&](WatchEvent event) {
    names.push_back(Letter(event.type) + ":" + std::string(Name(*event.object)));
    return true;
  });
  for (size_t at = 0; at < stream.size(); at += piece) EXPECT_TRUE(parser.Feed(stream.substr(at, piece)));
  EXPECT_TRUE(parser.Finish().ok()) << parser.Finish();
  return names;
}

TEST(WatchParser, PiecesOfAnySize) {
  const std::string stream = Event("ADDED", "a") + Event("MODIFIED", "\xe2\x82\xac\xf0\x9f\x98\x80") + "\r\n" +
                             Event("DELETED", "c\\nd") + Event("BOOKMARK", "");
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    EXPECT_THAT(ParseInPieces(stream, piece), ElementsAre("A:a", "M:\xe2\x82\xac\xf0\x9f\x98\x80", "D:c\nd", "B:"))
        << piece;
  }
}

TEST(WatchParser, LastLineWithoutBreak) {
  std::string stream = Event("ADDED", "a") + Event("ADDED", "b");
  stream.pop_back();
  EXPECT_THAT(ParseInPieces(stream, 7), ElementsAre("A:a", "A:b"));
}

TEST(WatchParser, WhatIsNoEventAtTheEnd) {
  WatchParser parser([](WatchEvent) { return true; });
  EXPECT_TRUE(parser.Feed("{}"));
  EXPECT_TRUE(absl::IsDataLoss(parser.Finish())) << parser.status();
}

TEST(WatchParser, CutInTheMiddle) {
  const std::string event = Event("ADDED", "a");
  for (size_t cut = 1; cut + 1 < event.size(); ++cut) {
    WatchParser parser([](WatchEvent) {
      ADD_FAILURE();
      return true;
    });
    EXPECT_TRUE(parser.Feed(event.substr(0, cut)));
    EXPECT_TRUE(absl::IsUnavailable(parser.Finish())) << cut << parser.status();
  }
}

TEST(WatchParser, SinkStops) {
  int events = 0;
  WatchParser parser([&](WatchEvent) { return ++events < 2; });
  EXPECT_FALSE(parser.Feed(Event("ADDED", "a") + Event("ADDED", "b") + Event("ADDED", "c")));
  EXPECT_EQ(events, 2);
  EXPECT_TRUE(parser.status().ok());
}

TEST(WatchParser, ErrorEventIsItsStatus) {
  WatchParser parser([](WatchEvent) {
    ADD_FAILURE() << "an ERROR is no object";
    return true;
  });
  EXPECT_FALSE(parser.Feed(
      R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version: 1 and 2","reason":"Expired","code":410}})"
      "\n"));
  EXPECT_TRUE(kube::IsExpired(parser.status())) << parser.status();
  EXPECT_THAT(std::string(parser.status().message()), HasSubstr("too old resource version"));
  EXPECT_FALSE(parser.Feed(Event("ADDED", "a")));
  EXPECT_TRUE(kube::IsExpired(parser.Finish()));
}

TEST(WatchParser, WhatIsNoEvent) {
  for (const char* line : {"[]", "{}", "null", "{\"type\":\"ADDED\"}", "{\"type\":\"ADDED\",\"object\":1}",
                           "{\"type\":\"SYNC\",\"object\":{}}", "<html>", "{\"type\":\"ADDED\",\"object\":{}} {}",
                           "{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"}}"}) {
    WatchParser parser([&](WatchEvent) {
      ADD_FAILURE() << line;
      return true;
    });
    EXPECT_FALSE(parser.Feed(absl::StrCat(line, "\n")));
    EXPECT_TRUE(absl::IsDataLoss(parser.status())) << line << " " << parser.status();
  }
}

TEST(WatchParser, DeepNesting) {
  auto nested = [](int depth) {
    return absl::StrCat(R"({"type":"ADDED","object":{"a":)", std::string(depth, '['), std::string(depth, ']'), "}}\n");
  };
  WatchParser parser([](WatchEvent) { return true; });
  EXPECT_TRUE(parser.Feed(nested(120)));
  EXPECT_FALSE(parser.Feed(nested(200)));
}

TEST(WatchParser, MegabytesInOneEvent) {
  const std::string big(20 << 20, 'x');
  size_t got = 0;
  WatchParser parser([&](WatchEvent event) {
    got = Text(*event.object, "data").size();
    return true;
  });
  const std::string line = absl::StrCat(R"({"type":"ADDED","object":{"data":")", big, "\"}}\n");
  for (size_t at = 0; at < line.size(); at += 65536) EXPECT_TRUE(parser.Feed(std::string_view(line).substr(at, 65536)));
  EXPECT_EQ(got, big.size());
}

TEST(WatchParser, EventWithoutEnd) {
  WatchParser parser([](WatchEvent) { return true; });
  const std::string piece(1 << 20, ' ');
  size_t fed = 0;
  while (parser.Feed(piece) && fed <= 2 * WatchParser::kMaxEvent) fed += piece.size();
  EXPECT_LE(fed, WatchParser::kMaxEvent);
  EXPECT_TRUE(absl::IsResourceExhausted(parser.status())) << parser.status();
}

}  // namespace
}  // namespace tf::kube
