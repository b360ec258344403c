// CUDA graphs of what is enqueued in the compute stream.
#pragma once

#include <mutex>

#include "core/graphs.h"

namespace mtl::cuda {

const GraphFunctions* graph_functions();

// MTL_CAPTURE while a graph is recorded: for what cannot be part of one.
Status refuse_while_capturing(const char* what);

// No graph is recorded while it is held; waits for the end of one that another thread records. For what
// threads of the process enqueue in the compute stream: it must not become part of a graph. Never on
// the thread that records, which `refuse_while_capturing` tells.
std::unique_lock<std::mutex> between_graphs();

}  // namespace mtl::cuda
