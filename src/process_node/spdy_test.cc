#include "process_node/spdy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace tf::process_node {
namespace {

using Type = SpdyFrame::Type;
using testing::ElementsAre;
using testing::Pair;

std::vector<SpdyFrame> All(SpdyReader& reader) {
  std::vector<SpdyFrame> all;
  while (true) {
    absl::StatusOr<std::optional<SpdyFrame>> next = reader.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !*next) return all;
    all.push_back(**next);
  }
}

TEST(Spdy, DictionaryOfTheProtocol) {
  // Size and Adler-32 are those of the published dictionary: zlib names a dictionary by the latter.
  const std::string_view text = SpdyDictionary();
  EXPECT_EQ(text.size(), 1423U);
  EXPECT_EQ(
      adler32(adler32(0, nullptr, 0), reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())),
      0xe3c6a7c2U);
}

TEST(Spdy, FramesInAnyPieces) {
  SpdyWriter writer;
  std::string bytes = writer.SynStream(1, {{"streamtype", "error"}, {"port", "80"}});
  bytes += writer.SynStream(3, {{"StreamType", "data"}, {"port", "80"}});
  bytes += SpdyWriter::Data(3, "hello", false) + SpdyWriter::Data(3, "", true) + SpdyWriter::Ping(7);
  bytes += SpdyWriter::Reset(3, 5) + writer.SynReply(9);
  for (const size_t piece : {size_t{1}, size_t{5}, bytes.size()}) {
    SpdyReader reader;
    std::vector<SpdyFrame> frames;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.Add(std::string_view(bytes).substr(at, piece));
      for (SpdyFrame& frame : All(reader)) frames.push_back(std::move(frame));
    }
    ASSERT_EQ(frames.size(), 7U);
    EXPECT_EQ(frames[0].type, Type::kSynStream);
    EXPECT_EQ(frames[0].stream, 1U);
    EXPECT_THAT(frames[0].headers, ElementsAre(Pair("streamtype", "error"), Pair("port", "80")));
    EXPECT_EQ(frames[1].Header("streamtype"), "data") << "the second block goes on with the first one's compression";
    EXPECT_EQ(frames[2].data, "hello");
    EXPECT_FALSE(frames[2].last);
    EXPECT_TRUE(frames[3].last);
    EXPECT_EQ(frames[4].type, Type::kPing);
    EXPECT_EQ(frames[4].stream, 7U);
    EXPECT_EQ(frames[5].type, Type::kReset);
    EXPECT_EQ(frames[6].type, Type::kOther);
  }
}

TEST(Spdy, WhatIsNone) {
  SpdyWriter writer;
  std::string other_version = SpdyWriter::Ping(1);
  other_version[1] = 2;
  std::string broken = writer.SynStream(1, {{"a", "b"}});
  broken[20] = static_cast<char>(broken[20] ^ 0xff);
  std::string brief = SpdyWriter::Ping(1).substr(0, 8);
  brief[7] = 0;
  for (const std::string& bytes : {other_version, broken, brief}) {
    SpdyReader reader;
    reader.Add(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(reader.Next().status()));
  }
  SpdyReader large;
  large.Add(SpdyWriter::Data(1, std::string((1 << 20) + 1, 'x'), false).substr(0, 8));
  EXPECT_TRUE(absl::IsResourceExhausted(large.Next().status())) << "before the bytes have come";
}

TEST(Spdy, HeadersThatUnpackToTooMuch) {
  SpdyWriter writer;
  SpdyReader reader;
  reader.Add(writer.SynStream(1, {{"a", std::string(1 << 20, 'x')}}));
  EXPECT_TRUE(absl::IsResourceExhausted(reader.Next().status()));
}

}  // namespace
}  // namespace tf::process_node
