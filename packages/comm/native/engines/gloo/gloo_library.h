// Opens the shim library when a group asks for the gloo engine, and never before.
#pragma once

#include <string>

#include "core/status.h"
#include "engines/gloo/shim/gloo_shim.h"

namespace mtl::comm::gloo {

// `path`: empty for libmtl_comm_gloo.so next to the addon. The first call that succeeds decides for the
// process.
// @return MTL_GLOO_LIBRARY, saying what could not be opened and why.
Status load_gloo(const std::string& path, const MtlGlooApi** api);

}  // namespace mtl::comm::gloo
