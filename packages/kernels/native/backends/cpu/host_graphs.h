// Graphs on device cpu. A graph records calls of operations once, with the addresses of their operands.
// Later, a single call of the addon runs all these operations. Generation needs graphs, because it launches
// the same hundred operations for each token, and their checks, views and calls from JavaScript take longer
// than many of the kernels.
#pragma once

#include "core/backend.h"

namespace mtl {

const GraphFunctions* host_graph_functions();

// Allocates from the graph memory that the calling thread has entered, or else from the host's memory.
Status allocate_host_memory(size_t bytes, void** data);
void release_host_memory(void* data);

}  // namespace mtl
