#include "link/connection_string.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::link {
namespace {

using ::testing::HasSubstr;

TEST(ConnectionString, ParsesBothKinds) {
  const auto native = ParseConnectionString("native+10.1.2.3+8000+worker-7f9c-12345");
  ASSERT_TRUE(native.ok()) << native.status();
  EXPECT_EQ(*native, ConnectionString::Native("10.1.2.3", 8000, "worker-7f9c-12345"));
  const auto shmem = ParseConnectionString("shmem+tf_shm+1024+1");
  ASSERT_TRUE(shmem.ok()) << shmem.status();
  EXPECT_EQ(*shmem, ConnectionString::Shmem("tf_shm", 1024, "1"));
}

TEST(ConnectionString, FormatIsTheInverse) {
  for (const char* text : {"native+10.1.2.3+8000+v-1.2", "native+::1+1+0", "native+fe80::1234:5678+65535+a",
                           "native+::ffff:127.0.0.1+80+1", "shmem+tf_shm+4+1", "shmem+a.b-c_D9+1048576+x"}) {
    const auto value = ParseConnectionString(text);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(FormatConnectionString(*value), text);
  }
}

TEST(ConnectionString, RefusesWithTheFieldsName) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "kind"},
      {"native", "fields"},
      {"Native+127.0.0.1+80+1", "kind"},
      {" native+127.0.0.1+80+1", "kind"},
      {"tcp+127.0.0.1+80+1", "kind"},
      {"native+127.0.0.1+80", "fields"},
      {"native+127.0.0.1+80+1+2", "more than 4"},
      {"native+localhost+80+1", "address"},
      {"native+[::1]+80+1", "address"},
      {"native+127.1+80+1", "address"},
      {"native++80+1", "address"},
      {std::string("native+127.0.0.1\0x+80+1", 23), "address"},
      {"native+127.0.0.1+0+1", "port"},
      {"native+127.0.0.1+65536+1", "port"},
      {"native+127.0.0.1+080+1", "port"},
      {"native+127.0.0.1+-1+1", "port"},
      {"native+127.0.0.1+ 80+1", "port"},
      {"native+127.0.0.1+99999999999+1", "port"},
      {"native+127.0.0.1++1", "port"},
      {"native+127.0.0.1+80+", "version"},
      {"native+127.0.0.1+80+a b", "version"},
      {"native+127.0.0.1+80+1\n", "version"},
      {"shmem++64+1", "name"},
      {"shmem+.hidden+64+1", "name"},
      {"shmem+a/b+64+1", "name"},
      {"shmem+../x+64+1", "name"},
      {"shmem+" + std::string(65, 'a') + "+64+1", "name"},
      {"shmem+a+3+1", "MiB"},
      {"shmem+a+1048577+1", "MiB"},
      {"shmem+a+1e3+1", "MiB"},
      {"shmem+a+64+", "version"},
  };
  for (const auto& test : cases) {
    const auto value = ParseConnectionString(test.text);
    ASSERT_FALSE(value.ok()) << test.text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr(test.message)) << test.text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("expected native+<ip>")) << test.text;
  }
}

TEST(ConnectionString, KnowsLoopback) {
  for (const char* ip : {"127.0.0.1", "127.255.3.4", "::1", "::ffff:127.0.0.1"}) EXPECT_TRUE(IsLoopback(ip)) << ip;
  for (const char* ip : {"0.0.0.0", "128.0.0.1", "10.0.0.1", "::", "::2", "::ffff:10.0.0.1", "fe80::1", "", "x"}) {
    EXPECT_FALSE(IsLoopback(ip)) << ip;
  }
}

}  // namespace
}  // namespace tf::link
