#include "backends/cuda/attention/hopper.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "backends/cuda/runtime/tensor_map.h"

namespace mtl::cuda {
namespace {

// Returns an attribute of the device, or -1 if the attribute is unknown.
int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return -1;
  return value;
}

// Tells whether the GPU can run sm_90a code, which needs compute capability 9.0, not a later one.
bool is_hopper() {
  return attribute_of_device(cudaDevAttrComputeCapabilityMajor) == 9 && attribute_of_device(cudaDevAttrComputeCapabilityMinor) == 0;
}

// The bytes of keys and values in a section (QueryList): a third of Hopper's L2 cache of 50 MB, because each
// half of the cache may hold its own copy.
constexpr int64_t kBytesOfSection = 16 << 20;

// Tells whether these kernels are worthwhile: smaller heads would be mostly zeros at width 64.
bool is_covered(const AttentionProblem& problem) {
  return problem.head_size >= 40;
}

}  // namespace

bool is_attention_variable_known() {
  const char* const asked = std::getenv(kAttentionVariable);
  return asked == nullptr || *asked == '\0' || std::strcmp(asked, "mma.sync") == 0;
}

bool is_for_hopper(const AttentionProblem& problem) {
  static const bool on_hopper = is_hopper();  // constant, because a process uses one device
  const char* const asked = std::getenv(kAttentionVariable);
  return on_hopper && is_covered(problem) && (asked == nullptr || std::strcmp(asked, "mma.sync") != 0);
}

int num_multiprocessors() {
  static const int number = std::max(attribute_of_device(cudaDevAttrMultiProcessorCount), 1);
  return number;
}

QueryList query_list(const AttentionProblem& problem, int rows) {
  const int64_t tiles = (problem.num_queries + rows - 1) / rows, heads = problem.batch * problem.heads;
  // the bytes of the keys and values of a group; all members of the group read them
  const int64_t bytes_of_group = 2 * problem.num_keys * problem.head_size * static_cast<int64_t>(size_of(problem.dtype));
  const int64_t groups = std::max<int64_t>(kBytesOfSection / bytes_of_group, 1);
  return {static_cast<int>(tiles), static_cast<int>(heads), static_cast<int>(std::min(groups * (problem.heads / problem.groups), heads))};
}

cudaError_t make_panel_maps(PanelMaps* maps, const AttentionOperand& operand, int64_t positions, const AttentionProblem& problem) {
  const bool is_packed = problem.starts != nullptr;
  // the number of samples, groups and members, and the strides between them
  const int64_t counts[] = {is_packed ? 1 : problem.batch, problem.groups, problem.heads / problem.groups};
  const int64_t distances[] = {operand.sample, operand.group, operand.member};
  int64_t unit = 0, vectors = 1, places[3];  // unit: elements between vectors, which divides all strides
  for (int i = 0; i < 3; ++i) unit = counts[i] > 1 ? std::gcd(unit, distances[i]) : unit;
  if (unit == 0) unit = problem.head_size;  // there is only one vector
  for (int i = 0; i < 3; ++i) {
    places[i] = counts[i] > 1 ? distances[i] / unit : 0;
    vectors += (counts[i] - 1) * places[i];
  }
  if (vectors >= int64_t{1} << 31) return cudaErrorInvalidValue;
  maps->sample = static_cast<int>(places[0]);
  maps->group = static_cast<int>(places[1]);
  maps->member = static_cast<int>(places[2]);
  const int rest = hopper_width(problem.head_size) % 64;
  TensorMapShape shape = {operand.data,
                          problem.dtype == DType::kFloat16,
                          is_packed ? problem.rows : positions,
                          vectors,
                          problem.head_size,
                          operand.position,
                          unit,
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
  const AttentionProblem& problem = call.problem;
  BackwardMaps maps;
  cudaError_t status = make_panel_maps(&maps.query, problem.query, problem.num_queries, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.key, problem.key, problem.num_keys, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.value, problem.value, problem.num_keys, problem);
  if (status == cudaSuccess) status = make_panel_maps(&maps.output_gradient, problem.output_gradient, problem.num_queries, problem);
  if (status == cudaSuccess) status = launch_hopper_attention_query_gradient(call, maps);
  return status == cudaSuccess ? launch_hopper_attention_key_value_gradient(call, maps) : status;
}

}  // namespace mtl::cuda
