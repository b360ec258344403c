#include "backends/cuda/scratch/layer_norm.h"

#include "core/op_registry.h"
#include "ops/layer_norm.h"

namespace mtl::cuda {

LayerNormRows layer_norm_backward_rows(const OpCall& call, const GpuProperties& gpu) {
  using Op = LayerNormBackward;
  const TensorView& input = call.tensor(Op::kInput);
  const int64_t rows = input.rows(), columns = input.dim(-1), pack = 16 / static_cast<int64_t>(size_of(input.dtype));
  const bool is_packed = fits_registers(columns, pack) &&
                         are_rows_packed(columns, pack,
                                         {call.tensor(Op::kInputGradient).data, call.tensor(Op::kOutputGradient).data,
                                          input.data, call.tensor(Op::kWeight).data, call.tensor(Op::kAddend).data});
  if (!is_packed) return {false, 0, std::min<int64_t>(rows, 64)};
  const int threads = row_threads(ceiling(columns, pack), kMaxRowThreads);
  // enough blocks for about a thousand threads per multiprocessor, so that the device is busy
  const int64_t blocks = int64_t{gpu.num_multiprocessors} * std::max(1, 1024 / threads);
  return {true, threads, std::min<int64_t>(rows, blocks)};
}

namespace {

Status backward(const OpCall& call, const GpuProperties& gpu, ScratchBlocks* blocks) {
  using Op = LayerNormBackward;
  if (!call.has(Op::kWeightGradient)) return ok_status();
  const int64_t columns = call.tensor(Op::kInput).dim(-1);
  blocks->add(2 * columns * layer_norm_backward_rows(call, gpu).num_lines * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("layer_norm_backward", backward);

}  // namespace
}  // namespace mtl::cuda
