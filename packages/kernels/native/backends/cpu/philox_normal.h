// The kernel of philox_normal, which every device runs on the host: normals are made in double by the same
// code, so that a model starts with the same weights wherever it is trained.
#pragma once

#include "core/op_call.h"

namespace mtl {

// The output is host memory.
Status philox_normal_on_host(const OpCall& call);

}  // namespace mtl
