// The only interface to oneDNN. It computes a matmul through the C API of version 2 or 3. Primitives are
// cached by shape. Any thread may call it, but only one matmul runs at a time, because each calling thread
// has its own OpenMP team.
#pragma once

#include "backends/cpu/matmul_problem.h"
#include "core/scratch_blocks.h"

namespace mtl {

// Returns true if the build contains oneDNN. Otherwise (onednn_absent.cc), onednn_version is the only other
// function that may be called.
bool onednn_is_built();

Status onednn_matmul(const MatmulProblem& problem);

// Adds the scratch memory that `onednn_matmul` allocates at most. Does not read the operands' values; depends
// on whether there is a bias.
Status add_onednn_scratch(const MatmulProblem& problem, ScratchBlocks* blocks);

// Returns the version of the loaded library, such as "2.6.3"; "none" in builds without oneDNN.
const char* onednn_version();

}  // namespace mtl
