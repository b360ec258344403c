// The two backends on host memory: `cpu` uses the kernels of the active instruction set (see
// instruction_sets.h); `reference` is the oracle with which tests compare results.
#pragma once

#include "core/backend.h"
#include "core/op_registry.h"

namespace mtl {

const Backend* cpu_backend();
const Backend* reference_backend();

// Returns the function that declares the scratch memory of an op's CPU kernel, or null if the kernel needs
// none.
ScratchFunction cpu_scratch_of(const char* op);

// The library for matmuls that both our own kernels and oneDNN support.
enum class MatmulLibrary : int { kFaster = 0, kOwn = 1, kOneDnn = 2 };
MatmulLibrary matmul_library();
void set_matmul_library(MatmulLibrary library);

}  // namespace mtl
