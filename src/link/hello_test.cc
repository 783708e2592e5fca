#include "link/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "link/connection.h"

namespace tf::link {
namespace {

using ::testing::HasSubstr;

Hello Sample() {
  Hello hello;
  hello.role = Hello::Role::kAccept;
  hello.protocol_hash = 0x1122334455667788;
  hello.token[3] = std::byte{7};
  hello.ring_bytes = 1 << 22;
  hello.program_version = "0.1.0";
  hello.text = std::string("a\0b", 3);
  hello.message = "why";
  return hello;
}

Bytes Payload(const std::vector<std::byte>& frame) { return Bytes(frame).subspan(sizeof(FrameHeader)); }

TEST(Hello, RoundTrip) {
  const auto frame = FormatHello(Sample(), 1);
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  EXPECT_EQ(header.op, kOpHello);
  EXPECT_EQ(header.size, frame.size() - sizeof(header));
  EXPECT_EQ(header.flags, 1 << 12);
  const auto hello = ParseHello(Payload(frame));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(FormatHello(*hello, 1), frame);
  EXPECT_EQ(hello->text, Sample().text);
}

TEST(Hello, LongStringsAreCutAndFit) {
  Hello hello = Sample();
  hello.program_version.assign(100'000, 'v');
  hello.text.assign(100'000, 't');
  hello.message.assign(100'000, 'm');
  const auto frame = FormatHello(hello);
  EXPECT_LE(frame.size(), sizeof(FrameHeader) + kMaxHello);
  EXPECT_TRUE(ParseHello(Payload(frame)).ok());
}

TEST(Hello, EveryTruncationAndExtensionIsRefused) {
  auto frame = FormatHello(Sample());
  const Bytes payload = Payload(frame);
  for (size_t size = 0; size < payload.size(); ++size) EXPECT_FALSE(ParseHello(payload.first(size)).ok()) << size;
  frame.push_back(std::byte{0});
  EXPECT_FALSE(ParseHello(Payload(frame)).ok());
}

TEST(Hello, GarbageIsRefusedOrFormatsBack) {
  std::mt19937_64 random(1);
  const auto frame = FormatHello(Sample());
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(Payload(frame).begin(), Payload(frame).end());
    for (int n = 1 + random() % 4; n > 0; --n) bytes[random() % bytes.size()] = std::byte(random());
    const auto hello = ParseHello(bytes);
    if (hello.ok()) {
      const auto again = FormatHello(*hello);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), Payload(again).begin(), Payload(again).end()));
    }
  }
}

TEST(Hello, MismatchNamesBothVersions) {
  Hello client = Sample();
  Hello worker = Sample();
  EXPECT_TRUE(CheckProtocol(client, worker).ok());
  client.protocol_hash = 1;
  client.program_version = "0.2.0\n";
  const std::string message(CheckProtocol(client, worker).message());
  EXPECT_THAT(message, HasSubstr("client is version 0.2.0\\n (protocol 0000000000000001)"));
  EXPECT_THAT(message, HasSubstr("worker is version 0.1.0 (protocol 1122334455667788)"));
}

}  // namespace
}  // namespace tf::link
