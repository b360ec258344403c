#include "core/graph_recording.h"

#include "core/run_op.h"

namespace mtl {
namespace {

struct Recording {
  const GraphFunctions* graphs = nullptr;  // null: no graph is being recorded
  double flops_before = 0.0;
};
thread_local Recording recording;

}  // namespace

Status begin_recording(const GraphFunctions& graphs) {
  if (recording.graphs != nullptr) return nested_capture();
  MTL_RETURN_IF_ERROR(graphs.begin_capture());
  recording = {&graphs, counted_flops()};
  return ok_status();
}

Status end_recording(const GraphFunctions& graphs, RecordedGraph** recorded) {
  if (recording.graphs != &graphs) return no_capture();
  const double flops = counted_flops() - recording.flops_before;
  recording = {};
  count_flops(-flops);  // the operations were recorded, not executed
  void* graph = nullptr;
  MTL_RETURN_IF_ERROR(graphs.end_capture(recorded == nullptr ? nullptr : &graph));
  if (recorded != nullptr) *recorded = new RecordedGraph{graph, flops};
  return ok_status();
}

Status launch_recorded(const GraphFunctions& graphs, const RecordedGraph& recorded) {
  MTL_RETURN_IF_ERROR(graphs.launch(recorded.graph));
  count_flops(recorded.flops);
  return ok_status();
}

void destroy_recorded(const GraphFunctions& graphs, RecordedGraph* recorded) {
  graphs.destroy(recorded->graph);
  delete recorded;
}

Status refuse_while_recording(const GraphFunctions& graphs, const char* what) {
  return recording.graphs == &graphs ? not_in_capture(what) : ok_status();
}

}  // namespace mtl
