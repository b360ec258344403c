// Device meta: tensors with shape and dtype and without memory. Operations are validated and counted but
// compute nothing; allocations are counted by the rules of the device that it models, the CPU.
#pragma once

#include "core/backend.h"

namespace mtl {

const Backend* meta_backend();

}  // namespace mtl
