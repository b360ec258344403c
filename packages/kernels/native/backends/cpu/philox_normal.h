// The kernel of philox_normal. It runs on the host for every device, in double, so that a model has the same
// initial weights on every device.
#pragma once

#include "core/op_call.h"

namespace mtl {

// Fills an output in host memory.
Status philox_normal_on_host(const OpCall& call);

}  // namespace mtl
