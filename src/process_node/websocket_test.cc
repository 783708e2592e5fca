#include "process_node/websocket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tf::process_node {
namespace {

using Type = WebSocketMessage::Type;

// A client's frame: masked.
std::string Frame(int first, std::string_view payload) {
  std::string frame = WebSocketFrame(Type::kBinary, payload);
  frame[0] = static_cast<char>(first);
  frame[1] = static_cast<char>(frame[1] | 0x80);
  const size_t head = frame.size() - payload.size();
  const std::string mask = "\x12\x34\x56\x78";
  std::string masked(payload);
  for (size_t i = 0; i < masked.size(); ++i) masked[i] = static_cast<char>(masked[i] ^ mask[i % 4]);
  return frame.substr(0, head) + mask + masked;
}

std::vector<std::string> All(WebSocketReader& reader) {
  std::vector<std::string> all;
  while (true) {
    absl::StatusOr<std::optional<WebSocketMessage>> next = reader.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !*next) return all;
    all.push_back(std::to_string(static_cast<int>((*next)->type)) + ":" + (*next)->payload);
  }
}

TEST(WebSocket, AcceptOfTheStandard) {
  EXPECT_EQ(WebSocketAccept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocket, AnySplitGivesTheSame) {
  const std::string bytes = Frame(0x82, "abc") + Frame(0x02, "d") + Frame(0x89, "ping") + Frame(0x80, "ef") +
                            Frame(0x82, std::string(300, 'x')) + Frame(0x82, std::string(70000, 'y')) + Frame(0x82, "");
  const std::vector<std::string> expected = {
      "2:abc", "9:ping", "2:def", "2:" + std::string(300, 'x'), "2:" + std::string(70000, 'y'), "2:"};
  WebSocketReader whole;
  whole.Add(bytes);
  EXPECT_EQ(All(whole), expected);
  for (size_t piece : {1, 2, 3, 7, 1000}) {
    WebSocketReader reader;
    std::vector<std::string> all;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.Add(std::string_view(bytes).substr(at, piece));
      for (std::string& one : All(reader)) all.push_back(std::move(one));
    }
    EXPECT_EQ(all, expected) << piece;
  }
}

TEST(WebSocket, WhatIsNone) {
  for (const std::string& bytes :
       {std::string("\x82\x01x"), Frame(0xc2, "x"), Frame(0x80, "x"), Frame(0x83, "x"), Frame(0x09, "x"),
        Frame(0x89, std::string(126, 'x')), Frame(0x02, "a") + Frame(0x82, "b"), Frame(0x8f, "")}) {
    WebSocketReader reader;
    reader.Add(bytes);
    absl::StatusOr<std::optional<WebSocketMessage>> next = reader.Next();
    while (next.ok() && *next) next = reader.Next();
    EXPECT_TRUE(absl::IsInvalidArgument(next.status())) << next.status();
  }
}

TEST(WebSocket, Limits) {
  WebSocketReader reader(100);
  reader.Add(Frame(0x82, std::string(101, 'x')).substr(0, 10));
  EXPECT_TRUE(absl::IsResourceExhausted(reader.Next().status())) << "before the bytes have come";
  WebSocketReader parts(100);
  parts.Add(Frame(0x02, std::string(60, 'x')) + Frame(0x80, std::string(60, 'x')));
  EXPECT_TRUE(absl::IsResourceExhausted(parts.Next().status()));
  // A length with the highest bit set is no negative one.
  WebSocketReader huge;
  huge.Add(std::string("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10));
  EXPECT_TRUE(absl::IsResourceExhausted(huge.Next().status()));
}

}  // namespace
}  // namespace tf::process_node
