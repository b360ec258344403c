// The two backends on host memory: `cpu` uses the best instruction set of the machine; `reference` is the
// oracle that tests compare with.
#pragma once

#include "core/backend.h"
#include "core/op_registry.h"

namespace mtl {

const Backend* cpu_backend();
const Backend* reference_backend();

// Returns the function with which an op's CPU kernel declares its scratch memory; null if the kernel takes
// none.
ScratchFunction cpu_scratch_of(const char* op);

// Returns the best instruction set that this machine supports.
InstructionSet detected_instruction_set();
// Tells whether the processor has tiles of Intel's Advanced Matrix Extensions for bfloat16, and the system
// lets this process use them.
bool has_amx();
// Tells whether kernels were compiled for an instruction set (MTL_INSTRUCTION_SETS of CMakeLists.txt).
bool contains_instruction_set(InstructionSet level);
// Returns the instruction set that kernels are selected for: the best that the machine supports and the build
// contains, unless set_instruction_set has lowered it. Plain if no set is both supported and contained; the
// addon must not be used then.
InstructionSet active_instruction_set();
// Lowers or restores the selected instruction set; rejects a set that the machine or the build does not have.
Status set_instruction_set(InstructionSet level);

// Selects the library for matmuls that both our kernels and oneDNN support.
enum class MatmulLibrary : int { kFaster = 0, kOwn = 1, kOneDnn = 2 };
MatmulLibrary matmul_library();
void set_matmul_library(MatmulLibrary library);

}  // namespace mtl
