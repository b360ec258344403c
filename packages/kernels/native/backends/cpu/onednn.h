// The only file that exposes oneDNN. Computes a matmul through the C API of version 2 or 3. Primitives are
// cached by shape. Any thread may call these functions, but only one matmul runs at a time: each calling
// thread has its own OpenMP team, and concurrent teams would only compete for the same cores.
#pragma once

#include "backends/cpu/matmul_problem.h"
#include "core/scratch_blocks.h"

namespace mtl {

// Returns true if the build contains oneDNN. If it does not (see onednn_absent.cc), only this function and
// onednn_version may be called.
bool onednn_is_built();

Status onednn_matmul(const MatmulProblem& problem);

// Adds the maximum scratch memory that `onednn_matmul` allocates for a problem. Does not read the operands'
// values, but depends on the presence of a bias.
Status add_onednn_scratch(const MatmulProblem& problem, ScratchBlocks* blocks);

// Returns the loaded library's version, such as "2.6.3", or "none" if the build does not contain oneDNN.
const char* onednn_version();

}  // namespace mtl
