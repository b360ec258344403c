// Recording and launching graphs on any device. Each launch counts the FLOPs of the recorded operations;
// recording itself counts nothing.
#pragma once

#include "core/graphs.h"

namespace mtl {

// The result of a recording: the device's graph, and the FLOPs of its operations.
struct RecordedGraph {
  void* graph;
  double flops;
};

// Starts recording a graph. Returns MTL_CAPTURE if the calling thread is already recording a graph, on this
// or any other device.
Status begin_recording(const GraphFunctions& graphs);
// Ends the recording. If `recorded` is null, the recording is discarded.
Status end_recording(const GraphFunctions& graphs, RecordedGraph** recorded);
Status launch_recorded(const GraphFunctions& graphs, const RecordedGraph& recorded);
void destroy_recorded(const GraphFunctions& graphs, RecordedGraph* recorded);
// Returns MTL_CAPTURE while the calling thread records a graph on this device. `what` names the call that
// cannot be part of a graph.
Status refuse_while_recording(const GraphFunctions& graphs, const char* what);

}  // namespace mtl
