#include "engines/nccl/with_header/libraries.h"

#include <dlfcn.h>

#include "engines/nccl/library_search.h"

namespace mtl::comm::nccl {
namespace {

// The oldest supported version. In older versions, a thread that does not wait for NCCL may have only one
// group of calls in progress, because a second group overwrites the first. This engine's thread connects
// several communicators at once, so it needs several groups.
constexpr int kOldestVersion = NCCL_VERSION(2, 27, 3);

std::string version_text(int version) {
  if (version < 10000) return format_text("%d.%d.%d", version / 1000, version / 100 % 10, version % 100);  // up to 2.8
  return format_text("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

template <typename Function>
Status resolve(const LoadedLibrary& library, const char* name, const char* code, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library.handle, name));
  if (*function != nullptr) return ok_status();
  return error_status(code, "%s has no function %s; remedy: a newer version of it", library.path.c_str(), name);
}

// two macros, because CUDA's header renames functions by macros (cuEventDestroy becomes cuEventDestroy_v2)
#define MTL_TEXT_OF(name) #name
#define MTL_TEXT(name) MTL_TEXT_OF(name)
#define MTL_RESOLVE_NCCL(name) \
  MTL_RETURN_IF_ERROR(resolve(nccl, MTL_TEXT(name), "MTL_NCCL_VERSION", &loaded->name));
#define MTL_RESOLVE_DRIVER(name) \
  MTL_RETURN_IF_ERROR(resolve(driver, MTL_TEXT(name), "MTL_CUDA", &loaded->name));

}  // namespace

Status NcclLibraries::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return ok_status();
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return error_status("MTL_CUDA", "%s: %s (%d)", call, name == nullptr ? "an unknown error" : name,
                      static_cast<int>(result));
}

void abort_together(const NcclLibraries& libraries, const std::vector<ncclComm_t>& communicators) {
  if (communicators.empty()) return;
  const bool is_group = libraries.ncclGroupStart() == ncclSuccess;
  for (const ncclComm_t communicator : communicators) libraries.ncclCommAbort(communicator);
  if (is_group) libraries.ncclGroupEnd();
}

Status open_nccl_libraries(std::shared_ptr<const NcclLibraries>* libraries) {
  const auto loaded = std::make_shared<NcclLibraries>();
  LoadedLibrary driver, nccl;
  // the driver's library is opened before NCCL, which opens it by name and thus gets the same library
  MTL_RETURN_IF_ERROR(load_library({"libcuda.so.1", {}, "install NVIDIA's driver; in a container, start it with the GPUs"},
                                   &driver));
  MTL_RETURN_IF_ERROR(load_library({"libnccl.so.2",
                                    {"nvidia/nccl/lib", "nvidia/*/lib"},
                                    "pip install nvidia-nccl-cu13 (or -cu12, as the driver asks), or name the directory "
                                    "of libnccl.so.2 in MTL_CUDA_LIBS"},
                                   &nccl));
  MTL_RESOLVE_NCCL(ncclGetVersion)
  const ncclResult_t result = loaded->ncclGetVersion(&loaded->version);
  if (result != ncclSuccess || loaded->version < kOldestVersion) {
    return error_status("MTL_NCCL_VERSION", "%s is NCCL %s, at least %s is needed (several groups of calls in progress); remedy: "
                        "pip install --upgrade nvidia-nccl-cu13, or MTL_CUDA_LIBS with the directory of a newer one",
                        nccl.path.c_str(), version_text(loaded->version).c_str(), version_text(kOldestVersion).c_str());
  }
  MTL_NCCL_FUNCTIONS(MTL_RESOLVE_NCCL)
  MTL_DRIVER_FUNCTIONS(MTL_RESOLVE_DRIVER)
  loaded->nccl_path = nccl.path;
  loaded->driver_path = driver.path;
  MTL_RETURN_IF_ERROR(loaded->check(loaded->cuInit(0), "cuInit"));
  *libraries = loaded;
  return ok_status();
}

NcclInformation information_of(const NcclLibraries& libraries) {
  return {version_text(libraries.version), libraries.nccl_path, libraries.driver_path, version_text(NCCL_VERSION_CODE)};
}

std::string describe(const NcclLibraries& libraries) {
  const NcclInformation found = information_of(libraries);
  return "NCCL " + found.version + " at " + found.path + " (compiled against " + found.built_against + "), driver at " +
         found.driver_path;
}

std::string nccl_build_text() { return "compiled against NCCL " + version_text(NCCL_VERSION_CODE); }

}  // namespace mtl::comm::nccl
