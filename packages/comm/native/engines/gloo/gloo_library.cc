#include "engines/gloo/gloo_library.h"

#include <dlfcn.h>

#include <mutex>

namespace mtl::comm::gloo {
namespace {

std::string beside_this_library() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&load_gloo), &info);
  const std::string own = info.dli_fname == nullptr ? "" : info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + "libmtl_comm_gloo.so";
}

}  // namespace

Status load_gloo(const std::string& path, const MtlGlooApi** api) {
  static std::mutex mutex;
  static const MtlGlooApi* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded == nullptr) {
    const std::string file = path.empty() ? beside_this_library() : path;
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return error_status("MTL_GLOO_LIBRARY", "the gloo engine could not be loaded: %s", dlerror());
    using GetApi = const MtlGlooApi* (*)();
    const GetApi get_api = reinterpret_cast<GetApi>(dlsym(library, "mtl_gloo_api"));
    if (get_api == nullptr || get_api()->version != MTL_GLOO_ABI_VERSION) {
      return error_status("MTL_GLOO_LIBRARY", "%s was built for another version of @mtl/comm (it needs interface %d)",
                          file.c_str(), MTL_GLOO_ABI_VERSION);
    }
    loaded = get_api();
  }
  *api = loaded;
  return ok_status();
}

}  // namespace mtl::comm::gloo
