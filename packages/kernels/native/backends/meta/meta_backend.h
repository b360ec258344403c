// Devices meta and meta-cuda: tensors with shape and dtype and without memory. Operations are validated and
// counted but compute nothing; allocations are counted by the rules of the device that they model, the CPU
// and CUDA. meta-cuda needs neither the CUDA library nor a GPU.
#pragma once

#include "core/backend.h"

namespace mtl {

const Backend* meta_backend();
const Backend* meta_cuda_backend();

}  // namespace mtl
