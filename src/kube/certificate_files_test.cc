#include "kube/certificate_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/test_certificates.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

// A folder like the mount of a Secret: the files are links into a folder that a link ..data names, which is swapped.
class Mount {
 public:
  Mount() : root_(::testing::TempDir() + "certificate_files_XXXXXX") { EXPECT_NE(mkdtemp(root_.data()), nullptr); }
  ~Mount() { std::filesystem::remove_all(root_); }

  void Swap(const http::TestPair& pair) {
    const std::string version = absl::StrCat("..version", next_++);
    EXPECT_EQ(mkdir(Path(version).c_str(), 0700), 0);
    EXPECT_TRUE(WriteFile(Path(version + "/tls.crt"), pair.certificate_pem, 0600).ok());
    EXPECT_TRUE(WriteFile(Path(version + "/tls.key"), pair.key_pem, 0600).ok());
    EXPECT_EQ(symlink(version.c_str(), Path("..data_tmp").c_str()), 0);
    EXPECT_EQ(rename(Path("..data_tmp").c_str(), Path("..data").c_str()), 0);
    if (next_ == 1) {
      EXPECT_EQ(symlink("..data/tls.crt", Path("tls.crt").c_str()), 0);
      EXPECT_EQ(symlink("..data/tls.key", Path("tls.key").c_str()), 0);
    }
  }
  std::string Path(const std::string& name) const { return absl::StrCat(root_, "/", name); }
  CertificateFiles::Options Options(Metrics* metrics = nullptr) const {
    return {.certificate_path = Path("tls.crt"),
            .key_path = Path("tls.key"),
            .look_every = absl::Minutes(10),
            .metrics = metrics};
  }

 private:
  std::string root_;
  int next_ = 0;
};

TEST(CheckPair, RefusesWhatDoesNotBelongTogether) {
  const http::TestAuthority authority;
  const http::TestPair a = authority.SignLoopback(), b = authority.SignLoopback();
  EXPECT_TRUE(CheckPair({a.certificate_pem, a.key_pem}).ok());
  EXPECT_THAT(CheckPair({a.certificate_pem, b.key_pem}).message(), HasSubstr("not the certificate's"));
  EXPECT_THAT(CheckPair({"nonsense", a.key_pem}).message(), HasSubstr("a certificate in PEM"));
  EXPECT_THAT(CheckPair({a.certificate_pem, a.key_pem.substr(0, 60)}).message(), HasSubstr("a private key in PEM"));
}

TEST(CertificateFiles, MustBeGoodAtTheStart) {
  Mount mount;
  EXPECT_TRUE(absl::IsNotFound(CertificateFiles::Open(mount.Options()).status()));
}

TEST(CertificateFiles, FollowTheSwapOfAMount) {
  const http::TestAuthority authority;
  Mount mount;
  const http::TestPair first = authority.SignLoopback(), second = authority.SignLoopback();
  mount.Swap(first);
  auto files = CertificateFiles::Open(mount.Options());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->current()->certificate_pem, first.certificate_pem);
  mount.Swap(second);
  while ((*files)->current()->certificate_pem != second.certificate_pem) std::this_thread::yield();
  EXPECT_EQ((*files)->current()->key_pem, second.key_pem);
}

TEST(CertificateFiles, KeepTheLastGoodPair) {
  const http::TestAuthority authority;
  Mount mount;
  Metrics metrics;
  const http::TestPair first = authority.SignLoopback(), second = authority.SignLoopback();
  mount.Swap(first);
  auto files = CertificateFiles::Open(mount.Options(&metrics));
  ASSERT_TRUE(files.ok()) << files.status();
  mount.Swap({second.certificate_pem, first.key_pem});  // half renewed
  EXPECT_TRUE(absl::IsInvalidArgument((*files)->Read()));
  EXPECT_EQ((*files)->current()->certificate_pem, first.certificate_pem);
  ASSERT_EQ(unlink(mount.Path("tls.key").c_str()), 0);
  EXPECT_TRUE(absl::IsNotFound((*files)->Read()));
  EXPECT_EQ((*files)->current()->certificate_pem, first.certificate_pem);
  EXPECT_THAT(metrics.Text(), HasSubstr("certwatcher_read_certificate_errors_total"));
}

TEST(CertificateFiles, AreLookedAtNowAndThenToo) {
  const http::TestAuthority authority;
  Mount mount;
  Metrics metrics;
  mount.Swap(authority.SignLoopback());
  CertificateFiles::Options options = mount.Options(&metrics);
  options.look_every = absl::Milliseconds(1);
  auto files = CertificateFiles::Open(options);
  ASSERT_TRUE(files.ok()) << files.status();
  while (metrics.Counter("certwatcher_read_certificate_total", "Looks at the certificate's files", {}).Value() < 5) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace tf::kube
