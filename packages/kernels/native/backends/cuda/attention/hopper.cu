#include "backends/cuda/attention/hopper.h"

#include <cstdlib>
#include <cstring>

#include "backends/cuda/runtime/tensor_map.h"

namespace mtl::cuda {
namespace {

// sm_90a is the code of compute capability 9.0 alone: nothing else runs it, not even later GPUs.
bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return false;
  if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) return false;
  return major == 9 && minor == 0;
}

// Narrower heads would be mostly zeros at width 64.
bool is_covered(const AttentionProblem& problem) {
  return problem.head_size >= 40;
}

}  // namespace

bool is_attention_variable_known() {
  const char* const asked = std::getenv(kAttentionVariable);
  return asked == nullptr || *asked == '\0' || std::strcmp(asked, "mma.sync") == 0;
}

bool is_for_hopper(const AttentionProblem& problem) {
  static const bool on_hopper = is_hopper();  // a process has one device
  const char* const asked = std::getenv(kAttentionVariable);
  return on_hopper && is_covered(problem) && (asked == nullptr || *asked == '\0');
}

cudaError_t make_panel_maps(PanelMaps* maps, const void* data, int parts, const AttentionProblem& problem) {
  const int rest = hopper_width(problem.head_size) % 64;
  const bool is_packed = problem.starts != nullptr;
  TensorMapShape shape = {data,
                          problem.dtype == DType::kFloat16,
                          is_packed ? problem.rows : problem.num_queries,
                          parts * (is_packed ? 1 : problem.batch) * problem.heads,
                          problem.head_size,
                          kBoxRows,
                          64,
                          swizzle_of(64)};
  const cudaError_t status = make_tensor_map(&maps->full, shape);
  if (status != cudaSuccess || rest == 0) return maps->rest = maps->full, status;
  shape.box_columns = rest;
  shape.swizzle = swizzle_of(rest);
  return make_tensor_map(&maps->rest, shape);
}

cudaError_t launch_hopper_attention_backward(const AttentionBackwardCall& call) {
  BackwardMaps maps;
  cudaError_t status = make_panel_maps(&maps.qkv, call.problem.query.data, 3, call.problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.output_gradient, call.problem.output_gradient.data, 1, call.problem);
  if (status == cudaSuccess) status = launch_hopper_attention_query_gradient(call, maps);
  return status == cudaSuccess ? launch_hopper_attention_key_value_gradient(call, maps) : status;
}

}  // namespace mtl::cuda
