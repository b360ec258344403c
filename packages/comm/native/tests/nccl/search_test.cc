#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "engines/nccl/library_search.h"
#include "tests/nccl/nccl_tests.h"

namespace mtl::comm::nccl::tests {
namespace {

// Sets an environment variable until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    was_set_ = before != nullptr;
    if (was_set_) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  bool was_set_;
  std::string before_;
};

const LibraryRequest kAbsent = {"libmtl-absent.so.7", {"nvidia/absent/lib"}, "write one"};

}  // namespace

NCCL_TEST(search_lists_every_path_it_tried_and_the_remedy) {
  const Variable explicit_ones("MTL_CUDA_LIBS", "/none/a:/none/b");
  const Variable toolkit("CUDA_HOME", "/none/toolkit");
  const Variable environment("VIRTUAL_ENV", "/none/venv");
  const Variable conda("CONDA_PREFIX", "/none/conda");
  LoadedLibrary library;
  const Status status = load_library(kAbsent, &library);
  EXPECT_STATUS(failed_with(status, "MTL_NCCL_NOT_FOUND"), status);
  size_t from = 0;
  for (const char* path : {"/none/a/libmtl-absent.so.7: not there", "/none/b/libmtl-absent.so.7",
                           "\n  libmtl-absent.so.7: ", "/none/toolkit/lib64/libmtl-absent.so.7",
                           "/none/toolkit/targets/*/lib/libmtl-absent.so.7",
                           "/none/venv/lib/python3*/site-packages/nvidia/absent/lib/libmtl-absent.so.7",
                           "/none/conda/lib/libmtl-absent.so.7", "/usr/local/cuda*/lib64/libmtl-absent.so.7",
                           "/usr/lib/x86_64-linux-gnu/libmtl-absent.so.7", "remedy: write one"}) {
    const size_t at = status.ok() ? std::string::npos : status.failure().message.find(path, from);
    report(at != std::string::npos, __FILE__, __LINE__, std::string("in its place in the list: ") + path);
    if (at != std::string::npos) from = at;
  }
}

NCCL_TEST(search_does_not_replace_a_broken_library_that_was_asked_for) {
  char folder[] = "/tmp/mtl-nccl-test-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/libm.so.6";  // the dynamic linker would find a valid one
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("not a library", file);
  std::fclose(file);
  const Variable explicit_ones("MTL_CUDA_LIBS", folder);
  LoadedLibrary library;
  const Status status = load_library({"libm.so.6", {}, "a good one"}, &library);
  EXPECT_STATUS(failed_with(status, "MTL_NCCL_NOT_FOUND") && contains(status, path), status);
  std::remove(path.c_str());
  rmdir(folder);
}

NCCL_TEST(search_finds_by_name_and_says_where) {
  LoadedLibrary library;
  const Status status = load_library({"libm.so.6", {}, "install libc"}, &library);
  EXPECT_STATUS(status.ok(), status);
  EXPECT(library.handle != nullptr && library.path.front() == '/');
}

#ifndef MTL_NCCL_FAKES
NCCL_TEST(a_build_without_the_header_says_so) {
  std::shared_ptr<const NcclLibraries> libraries;
  const Status status = open_nccl_libraries(&libraries);
  EXPECT_STATUS(failed_with(status, "MTL_NCCL_NOT_BUILT") && contains(status, "remedy: "), status);
}
#endif

}  // namespace mtl::comm::nccl::tests
