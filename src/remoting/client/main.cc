// tensor-fusion-client: copies the client libraries into a folder, for the init container of a pod that is to see a
// vGPU. They lie in ../lib/client and ../lib/cudart beside this program; in the image cp does the same.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

constexpr char kName[] = "tensor-fusion-client";
constexpr char kTarget[] = "/tensor-fusion";

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", kName, what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const std::string first = argc > 1 ? argv[1] : kTarget;
  if (argc > 2 || first.starts_with("-")) {
    std::printf("%s [FOLDER]: copies the client libraries into FOLDER, %s where none is named\n", kName, kTarget);
    return first == "-h" || first == "--help" ? 0 : 2;
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return Fail("/proc/self/exe: " + error.message());
  for (const char* part : {"client", "cudart"}) {
    const fs::path from = self.parent_path().parent_path() / "lib" / part;
    const fs::path to = fs::path(first) / part;
    fs::copy(from, to,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing | fs::copy_options::copy_symlinks,
             error);
    if (error) return Fail("cannot copy " + from.string() + " to " + to.string() + ": " + error.message());
  }
  return 0;
}
