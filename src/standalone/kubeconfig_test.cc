#include "standalone/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::standalone {
namespace {

using testing::HasSubstr;

TEST(Kubeconfig, HoldsEverythingItself) {
  const std::string text = KubeconfigText("tensor-fusion", "https://127.0.0.1:6443", "the CA", {"certificate", "key"});
  EXPECT_THAT(text, HasSubstr("server: https://127.0.0.1:6443\n"));
  EXPECT_THAT(text, HasSubstr("certificate-authority-data: dGhlIENB\n"));
  EXPECT_THAT(text, HasSubstr("client-certificate-data: Y2VydGlmaWNhdGU=\n"));
  EXPECT_THAT(text, HasSubstr("client-key-data: a2V5\n"));
  EXPECT_THAT(text, HasSubstr("current-context: tensor-fusion\n"));
}

TEST(Kubeconfig, TheExportLineIsSafeToType) {
  EXPECT_EQ(ExportLine("/home/x/.local/share/kubeconfig"), "export KUBECONFIG=/home/x/.local/share/kubeconfig");
  EXPECT_EQ(ExportLine("/my files/it's"), "export KUBECONFIG='/my files/it'\\''s'");
  EXPECT_EQ(ExportLine("/a$b"), "export KUBECONFIG='/a$b'");
}

}  // namespace
}  // namespace tf::standalone
