#pragma once

#include "ops/attention.h"

namespace mtl::cuda {

// Whether a call takes memory for the first key of every query, with which tensor cores compute windows
// (attention/attention.h).
inline bool takes_first_keys(const AttentionProblem& problem) { return problem.window != kNoWindow && problem.starts == nullptr; }

}  // namespace mtl::cuda
