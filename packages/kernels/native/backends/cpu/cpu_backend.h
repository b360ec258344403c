// The two backends on host memory: `cpu` uses the kernels of the active instruction set (instruction_sets.h);
// `reference` is the oracle that tests compare with.
#pragma once

#include "core/backend.h"
#include "core/op_registry.h"

namespace mtl {

const Backend* cpu_backend();
const Backend* reference_backend();

// Returns the function with which an op's CPU kernel declares its scratch memory; null if the kernel takes
// none.
ScratchFunction cpu_scratch_of(const char* op);

// Selects the library for matmuls that both our kernels and oneDNN support.
enum class MatmulLibrary : int { kFaster = 0, kOwn = 1, kOneDnn = 2 };
MatmulLibrary matmul_library();
void set_matmul_library(MatmulLibrary library);

}  // namespace mtl
