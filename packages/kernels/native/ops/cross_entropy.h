// cross_entropy_forward_backward (cross_entropy.cc) as its two halves.
#pragma once

#include "core/op_parts.h"

namespace mtl {

Status cross_entropy_in_parts(const OpCall& call, FindKernel find);

}  // namespace mtl
