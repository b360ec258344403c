// The kernel of philox_normal, which every device runs on the host: the same code computes normals in double,
// so that a model starts with the same weights on every device.
#pragma once

#include "core/op_call.h"

namespace mtl {

// The output is in host memory.
Status philox_normal_on_host(const OpCall& call);

}  // namespace mtl
