// Matmuls of 16-bit operands that oneDNN does not multiply on this CPU, in float32.
#pragma once

#include "backends/cpu/onednn.h"
#include "core/scratch_blocks.h"

namespace mtl {

// Exact products, float32 sums and one rounding at the end, as tensor cores compute them. Operands are
// converted in blocks, so that the float32 copies stay small.
Status widened_matmul(const MatmulProblem& problem);

// The scratch memory that `widened_matmul` takes.
Status widened_scratch(const MatmulProblem& problem, ScratchBlocks* blocks);

}  // namespace mtl
