// The two backends on host memory: `cpu` (the best instruction set of the machine) and `reference` (the
// oracle).
#pragma once

#include "core/backend.h"
#include "core/op_registry.h"

namespace mtl {

const Backend* cpu_backend();
const Backend* reference_backend();

// The scratch memory that an op's CPU kernel declares; null where it takes none.
ScratchFunction cpu_scratch_of(const char* op);

// The best instruction set that this machine supports.
InstructionSet detected_instruction_set();
// Whether kernels were compiled for an instruction set (MTL_INSTRUCTION_SETS of CMakeLists.txt).
bool contains_instruction_set(InstructionSet level);
// The instruction set that kernels are selected for, unless lowered the best that the machine supports and
// the build contains. Plain where there is none, and then the addon must not be used.
InstructionSet active_instruction_set();
// Lowers or restores the selected instruction set; rejects a set that the machine or the build does not have.
Status set_instruction_set(InstructionSet level);

// Sets the number of OpenMP threads of the calling thread's kernels, oneDNN's included. With `pin`,
// thread i > 0 stays on the i-th core that the process may use.
Status set_num_threads(int num_threads, bool pin);
int num_threads();

}  // namespace mtl
