// Moves the index report at a point of the compute stream.
#include "backends/cuda/launch.h"
#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/index_report.h"

namespace mtl::cuda {
namespace {

// A single thread runs it, between the kernels that write reports.
__global__ void move_index_report_kernel(IndexReport* destination, IndexReport* source) {
  if (threadIdx.x != 0) return;
  *destination = *source;
  source->is_written = 0;
  source->is_taken = 0;
  __threadfence_system();
}

}  // namespace

Status move_index_report(IndexReport* destination) {
  const Launch launch = {1, 32, 0, compute_stream()};
  return cuda_status(MTL_LAUNCH(move_index_report_kernel, launch, destination, index_report()), "move_index_report");
}

}  // namespace mtl::cuda
