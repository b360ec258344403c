// CUDA graphs, which record the work that is enqueued in the compute stream.
#pragma once

#include <mutex>

#include "core/graphs.h"

namespace mtl::cuda {

const GraphFunctions* graph_functions();

// Returns MTL_CAPTURE while a graph is being recorded. Must be called before work that cannot be part of a
// graph.
Status refuse_while_capturing(const char* what);

// Returns a lock that prevents the recording of graphs. If another thread is recording, first waits until it
// has finished. Threads that enqueue work in the compute stream take this lock, because their work must not
// become part of a graph. The recording thread itself must never call this function; `refuse_while_capturing`
// detects such calls.
std::unique_lock<std::mutex> between_graphs();

}  // namespace mtl::cuda
