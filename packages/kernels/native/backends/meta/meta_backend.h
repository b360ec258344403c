// Devices meta and meta-cuda have tensors with shape and dtype but without memory. Operations are validated
// and counted, but compute nothing. Allocations are counted by the rules of the modelled device: the CPU for
// meta, CUDA for meta-cuda. meta-cuda needs neither the CUDA library nor a GPU.
#pragma once

#include "core/backend.h"

namespace mtl {

const Backend* meta_backend();
const Backend* meta_cuda_backend();

}  // namespace mtl
