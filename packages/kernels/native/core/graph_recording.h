// Recording and launching graphs on any device: each launch counts the FLOPs of the recorded operations,
// recording does not.
#pragma once

#include "core/graphs.h"

namespace mtl {

// The results of a recording: the device's graph and the FLOPs of its operations.
struct RecordedGraph {
  void* graph;
  double flops;
};

// A thread records one graph at a time, on any device: otherwise MTL_CAPTURE.
Status begin_recording(const GraphFunctions& graphs);
// `recorded` may be null: the recording is discarded.
Status end_recording(const GraphFunctions& graphs, RecordedGraph** recorded);
Status launch_recorded(const GraphFunctions& graphs, const RecordedGraph& recorded);
void destroy_recorded(const GraphFunctions& graphs, RecordedGraph* recorded);
// MTL_CAPTURE while the calling thread records on this device; names the call that cannot be part of a graph.
Status refuse_while_recording(const GraphFunctions& graphs, const char* what);

}  // namespace mtl
