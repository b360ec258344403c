#include "backends/cuda/scratch/rms_norm.h"

#include "core/op_registry.h"
#include "core/row_layout.h"
#include "ops/rms_norm.h"

namespace mtl::cuda {
namespace {

constexpr int kOperandsWithRows[] = {RmsNormBackward::kInputGradient, RmsNormBackward::kOutputGradient,
                                     RmsNormBackward::kInput, RmsNormBackward::kAddend};

bool are_operands_packed(const OpCall& call, int64_t columns, int64_t pack) {
  if (!are_rows_packed(columns, pack, {call.tensor(RmsNormBackward::kWeight).data})) return false;
  for (const int operand : kOperandsWithRows) {
    const TensorView& tensor = call.tensor(operand);
    if (!is_aligned(tensor.data)) return false;
    const RowLayout rows = row_layout_of(tensor);
    for (int dim = 0; dim < rows.rank; ++dim) {
      if (rows.strides[dim] % pack != 0) return false;
    }
  }
  return true;
}

Status backward(const OpCall& call, const GpuProperties& gpu, ScratchBlocks* blocks) {
  const TensorView& input = call.tensor(RmsNormBackward::kInput);
  if (!call.has(RmsNormBackward::kWeightGradient) || input.rows() == 0) return ok_status();
  const int64_t num_lines = rms_norm_backward_rows(call, gpu).num_lines;
  blocks->add(input.dim(-1) * num_lines * static_cast<int64_t>(sizeof(float)));
  return ok_status();
}

MTL_REGISTER_CUDA_SCRATCH("rms_norm_backward", backward);

}  // namespace

RowBlock block_of_rows(int64_t columns, int64_t pack) {
  const int64_t accesses = ceiling(columns, pack);
  if (accesses > 32) return {row_threads(accesses, kMaxRowThreads), 1};
  int threads = 1;
  while (threads < accesses) threads *= 2;
  return {threads, kThreads / threads};
}

RmsNormRows rms_norm_backward_rows(const OpCall& call, const GpuProperties& gpu) {
  const TensorView& input = call.tensor(RmsNormBackward::kInput);
  const int64_t rows = input.rows(), columns = input.dim(-1), pack = 16 / static_cast<int64_t>(size_of(input.dtype));
  if (!fits_registers(columns, pack) || !are_operands_packed(call, columns, pack)) {
    return {false, std::min<int64_t>(rows, 64)};
  }
  const RowBlock block = block_of_rows(columns, pack);
  // enough blocks for about a thousand threads per multiprocessor, so that the device is busy
  const int64_t most = gpu.num_multiprocessors * std::max<int64_t>(1, 1024 / (int64_t{block.x} * block.y));
  return {true, std::min<int64_t>(ceiling(rows, block.y), most)};
}

}  // namespace mtl::cuda
