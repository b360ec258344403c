// Opens the shim library when a group first requests the gloo engine.
#pragma once

#include <string>

#include "core/status.h"
#include "engines/gloo/shim/gloo_shim.h"

namespace mtl::comm::gloo {

// Opens the library once per process; the first successful call determines the path. An empty `path` means
// libmtl_comm_gloo.so next to the addon. On failure, returns MTL_GLOO_LIBRARY, which names the library that
// could not be opened and the reason.
Status load_gloo(const std::string& path, const MtlGlooApi** api);

}  // namespace mtl::comm::gloo
