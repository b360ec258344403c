// CUDA graphs of what is enqueued in the compute stream.
#pragma once

#include "core/graphs.h"

namespace mtl::cuda {

const GraphFunctions* graph_functions();

// MTL_CAPTURE while a graph is recorded: for what cannot be part of one.
Status refuse_while_capturing(const char* what);

}  // namespace mtl::cuda
