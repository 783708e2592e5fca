#include "standalone/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "standalone/temporary_folder.h"

namespace tf::standalone {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Read(const TemporaryFolder& folder, const std::string& name) {
  return ReadFile(folder.Path(name), 1 << 16).value_or("");
}

TEST(Credentials, AuthoritiesAndTheSigningKeyAreKept) {
  const TemporaryFolder folder;
  const auto first = PrepareCredentials(folder.path(), "10.96.0.1", kNow);
  ASSERT_TRUE(first.ok()) << first.status();
  std::map<std::string, std::string> before;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    before[name] = Read(folder, name);
    struct stat info{};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  EXPECT_EQ(before.size(), 3u * 2 + 2 + 6u * 2);  // authorities, signing key, pairs

  const auto second = PrepareCredentials(folder.path(), "10.96.0.1", kNow + absl::Hours(24));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->ca_certificate, first->ca_certificate);
  EXPECT_NE(second->admin.certificate, first->admin.certificate);
  for (const char* kept :
       {credentials::kClusterCa, credentials::kClusterCaKey, credentials::kNodeClientCa, credentials::kFrontProxyCa,
        credentials::kServiceAccountKey, credentials::kServiceAccountPublicKey}) {
    EXPECT_EQ(Read(folder, kept), before[kept]) << kept;
    EXPECT_NE(before[kept], "") << kept;
  }
}

TEST(Credentials, AnAuthorityNearItsEndIsMadeAnew) {
  const TemporaryFolder folder;
  const auto first = PrepareCredentials(folder.path(), "10.96.0.1", kNow);
  const auto second = PrepareCredentials(folder.path(), "10.96.0.1", kNow + absl::Hours(24 * 3300));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(second->ca_certificate, first->ca_certificate);
}

TEST(Credentials, ABrokenFileIsNamed) {
  const TemporaryFolder folder;
  ASSERT_TRUE(PrepareCredentials(folder.path(), "10.96.0.1", kNow).ok());
  ASSERT_TRUE(WriteFile(folder.Path(credentials::kClusterCa), "nonsense", 0600).ok());
  const auto broken = PrepareCredentials(folder.path(), "10.96.0.1", kNow);
  EXPECT_THAT(std::string(broken.status().message()), testing::HasSubstr(folder.Path(credentials::kClusterCa)));
}

}  // namespace
}  // namespace tf::standalone
