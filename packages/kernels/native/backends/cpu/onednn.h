// The only interface to oneDNN: one matmul, through the C API, for versions 2 and 3. Primitives are cached by
// shape. Callable from any thread, one matmul at a time (each calling thread gets its own OpenMP team).
#pragma once

#include "backends/cpu/matmul_problem.h"
#include "core/scratch_blocks.h"

namespace mtl {

// False in builds without it (onednn_absent.cc), in which no other function but onednn_version is called.
bool onednn_is_built();

Status onednn_matmul(const MatmulProblem& problem);

// The most blocks of scratch memory that `onednn_matmul` allocates. The values of the operands do not matter,
// only whether there is a bias.
Status add_onednn_scratch(const MatmulProblem& problem, ScratchBlocks* blocks);

// The version that was loaded, such as "2.6.3"; "none" in builds without it.
const char* onednn_version();

}  // namespace mtl
