// matmul: runs cuBLASLt, or our own kernels in the cases that cuBLASLt does not support: empty sums, biases
// whose dtype is not the output's, and biases of shapes and dtypes for which it has no algorithm.
#include "ops/matmul.h"

#include "backends/cuda/cublaslt/cublaslt.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/linear.h"

namespace mtl::cuda {
namespace {

// Computes output[row, column] = bias[column] (+ output): a matmul whose sums have no terms.
template <typename O, typename B>
__global__ void empty_matmul_kernel(O* output, const B* bias, int64_t size, int64_t columns, bool accumulate) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const float value = bias == nullptr ? 0.0f : to_float(bias[at % columns]);
  set(output + at, accumulate ? to_float(output[at]) + value : value);
}

template <typename O, typename B>
__global__ void convert_bias_kernel(O* output, const B* bias, int64_t size) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < size) set(output + at, to_float(bias[at]));
}

DType bias_dtype(const OpCall& call) {
  return call.has(Matmul::kBias) ? call.tensor(Matmul::kBias).dtype : call.tensor(Matmul::kOutput).dtype;
}

// Calls body with two null pointers, to the output's type and to the bias's type.
template <typename Body>
Status for_output_and_bias(const OpCall& call, const Body& body) {
  return for_floating(call, call.tensor(Matmul::kOutput).dtype, [&](auto* output) {
    return for_floating(call, bias_dtype(call), [&](auto* bias) { return body(output, bias); });
  });
}

Status empty_matmul(const OpCall& call, int64_t columns) {
  return for_output_and_bias(call, [&](auto* output_type, auto* bias_type) {
    using O = std::remove_pointer_t<decltype(output_type)>;
    using B = std::remove_pointer_t<decltype(bias_type)>;
    const int64_t size = call.tensor(Matmul::kOutput).size();
    MTL_RUN_KERNEL(call, (empty_matmul_kernel<O, B>), grid_of(ceiling(size, kThreads), kThreads),
                   call.data<O>(Matmul::kOutput), call.data<B>(Matmul::kBias), size, columns,
                       call.flag(Matmul::kAccumulate));
    return ok_status();
  });
}

Status matmul(const OpCall& call) {
  const TensorView &output = call.tensor(Matmul::kOutput), &left = call.tensor(Matmul::kLeft);
  if (left.dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
  }
  const MatmulSizes sizes = matmul_sizes(call);
  if (output.size() == 0) return ok_status();
  if (sizes.inner == 0) return empty_matmul(call, sizes.columns);
  const bool is_converted = converts_bias(call);
  KernelScratch converted;
  if (is_converted) {
    MTL_RETURN_IF_ERROR(converted.take(call));
    MTL_RETURN_IF_ERROR(for_output_and_bias(call, [&](auto* output_type, auto* bias_type) {
      using O = std::remove_pointer_t<decltype(output_type)>;
      using B = std::remove_pointer_t<decltype(bias_type)>;
      MTL_RUN_KERNEL(call, (convert_bias_kernel<O, B>), grid_of(ceiling(sizes.columns, kThreads), kThreads),
                     converted.as<O>(0), call.data<B>(Matmul::kBias), sizes.columns);
      return ok_status();
    }));
  }
  MatmulProblem problem = {output.data,
                           left.data,
                           call.tensor(Matmul::kRight).data,
                           is_converted ? converted.as<void>(0) : call.tensor(Matmul::kBias).data,
                           sizes.batch,
                           sizes.rows,
                           sizes.columns,
                           sizes.inner,
                           call.flag(Matmul::kTransposeLeft),
                           call.flag(Matmul::kTransposeRight),
                           call.flag(Matmul::kAccumulate),
                           left.dtype,
                           output.dtype};
  if (problem.bias != nullptr) {
    bool is_offered = false;
    MTL_RETURN_IF_ERROR(cublaslt_matmul_if_offered(problem, &is_offered));
    if (is_offered) return ok_status();
    // writes the bias first, then adds the matmul to it
    MTL_RETURN_IF_ERROR(empty_matmul(call, sizes.columns));
    problem.bias = nullptr;
    problem.accumulate = true;
  }
  return cublaslt_matmul(problem);
}

MTL_REGISTER_CUDA("matmul", matmul);

}  // namespace
}  // namespace mtl::cuda
