// Recording and launching graphs on any device: FLOPs of recorded operations are counted by each launch,
// which does them, and not while they are recorded.
#pragma once

#include "core/graphs.h"

namespace mtl {

// The results of a recording: the device's graph and the FLOPs of its operations.
struct RecordedGraph {
  void* graph;
  double flops;
};

// One recording at a time by each thread, on any device: otherwise MTL_CAPTURE.
Status begin_recording(const GraphFunctions& graphs);
// `recorded` may be null: the recording is discarded.
Status end_recording(const GraphFunctions& graphs, RecordedGraph** recorded);
Status launch_recorded(const GraphFunctions& graphs, const RecordedGraph& recorded);
void destroy_recorded(const GraphFunctions& graphs, RecordedGraph* recorded);
// MTL_CAPTURE while the calling thread records on this device; names the call that cannot be part of a graph.
Status refuse_while_recording(const GraphFunctions& graphs, const char* what);

}  // namespace mtl
