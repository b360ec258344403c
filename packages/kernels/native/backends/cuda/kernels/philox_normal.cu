// philox_normal: computed on the host (backends/cpu/philox_normal.h) and copied, a chunk of rows at a time.
#include "backends/cpu/philox_normal.h"

#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/runtime/host_copies.h"
#include "ops/philox_normal.h"

namespace mtl::cuda {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;

constexpr int kNumAttributes = PhiloxNormal::kColumnOffset + 1;

Status philox_normal(const OpCall& call) {
  using Op = PhiloxNormal;
  const TensorView& output = call.tensor(Op::kOutput);
  const int64_t row_bytes = output.dim(1) * static_cast<int64_t>(size_of(output.dtype));
  if (output.dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "philox_normal: float64 is computed on the reference device only");
  }
  if (output.size() == 0) return ok_status();
  const int64_t rows_per_chunk = std::max<int64_t>(1, kChunkBytes / row_bytes);
  void* host = nullptr;
  MTL_RETURN_IF_ERROR(pinned_memory().allocate(static_cast<size_t>(std::min(rows_per_chunk, output.dim(0)) * row_bytes), &host));
  Status status = ok_status();
  for (int64_t row = 0; row < output.dim(0) && status.ok(); row += rows_per_chunk) {
    TensorView chunk = output;
    chunk.data = host;
    chunk.shape[0] = std::min(rows_per_chunk, output.dim(0) - row);
    double attributes[kNumAttributes];
    std::copy(call.attributes, call.attributes + kNumAttributes, attributes);
    attributes[Op::kRowOffset] += static_cast<double>(row);
    OpCall chunk_call = call;
    chunk_call.tensors = &chunk;
    chunk_call.attributes = attributes;
    status = philox_normal_on_host(chunk_call);
    if (status.ok()) {
      status = copy_from_host(static_cast<char*>(output.data) + row * row_bytes, host,
                              static_cast<size_t>(chunk.dim(0) * row_bytes));
    }
  }
  pinned_memory().release(host);
  return status;
}

MTL_REGISTER_CUDA("philox_normal", philox_normal);

}  // namespace
}  // namespace mtl::cuda
