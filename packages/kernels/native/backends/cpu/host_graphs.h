// Graphs of device cpu: calls that are recorded once, with the addresses of their operands, and run as one
// call of the addon. Generation launches the same hundred operations for each token, where checks, views and
// calls from JavaScript take longer than many kernels.
#pragma once

#include "core/backend.h"

namespace mtl {

const GraphFunctions* host_graph_functions();

// Allocates from the graph memory that the calling thread has entered, or from the host's memory.
Status allocate_host_memory(size_t bytes, void** data);
void release_host_memory(void* data);

}  // namespace mtl
