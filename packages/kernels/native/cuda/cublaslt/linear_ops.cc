// The products of a linear layer with what cuBLASLt's epilogues do in the same pass. What the library does
// not offer (exact GELU, shapes that its epilogues do not take) is done by a product and this library's own
// kernels, and so is GELU of float32: how exact the library's tanh is, is not documented, and was not
// measured against float32's bounds.
#include "ops/linear.h"

#include "cuda/cublaslt/cublaslt.h"
#include "cuda/kernels/column_sums.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/op_table.h"

namespace mtl::cuda {
namespace {

// output [rows, columns] = left right, as the fused products of this file differ.
MatrixProduct product_of(const OpCall& call, int output, int left, int right) {
  MatrixProduct product = {};
  product.output = call.tensor(output).data;
  product.left = call.tensor(left).data;
  product.right = call.tensor(right).data;
  product.batch = 1;
  product.input_dtype = call.tensor(left).dtype;
  product.output_dtype = call.tensor(output).dtype;
  return product;
}

bool is_empty(const MatrixProduct& product) { return product.rows == 0 || product.columns == 0 || product.inner == 0; }

// Whether GELU, or its derivative, may be the library's.
bool may_fuse_gelu(const OpCall& call, const MatrixProduct& product) {
  const bool is_exact = call.flag(0);
  return !is_exact && product.output_dtype != DType::kFloat32 && !is_empty(product);
}

Status forward(const OpCall& call) {
  enum { kOutput, kPreactivation, kInput, kWeight, kBias };
  MatrixProduct product = product_of(call, kOutput, kInput, kWeight);
  product.rows = call.tensor(kInput).rows();
  product.columns = call.tensor(kWeight).dim(0);
  product.inner = call.tensor(kWeight).dim(1);
  product.transpose_right = true;
  product.bias = call.tensor(kBias).data;
  product.fused = FusedWith::kGelu;
  product.auxiliary = call.tensor(kPreactivation).data;
  bool is_offered = false;
  if (may_fuse_gelu(call, product)) MTL_RETURN_IF_ERROR(cublaslt_product_if_offered(product, &is_offered));
  if (is_offered) return ok_status();
  return linear_gelu_forward_in_parts(call, find_kernel);
}

Status backward(const OpCall& call) {
  enum { kInputGradient, kOutputGradient, kWeight, kPreactivation };
  MatrixProduct product = product_of(call, kInputGradient, kOutputGradient, kWeight);
  product.rows = call.tensor(kOutputGradient).rows();
  product.columns = call.tensor(kWeight).dim(1);
  product.inner = call.tensor(kWeight).dim(0);
  product.fused = FusedWith::kGeluGradient;
  product.auxiliary = call.tensor(kPreactivation).data;
  bool is_offered = false;
  if (may_fuse_gelu(call, product)) MTL_RETURN_IF_ERROR(cublaslt_product_if_offered(product, &is_offered));
  if (is_offered) return ok_status();
  return linear_gelu_backward_in_parts(call, find_kernel);
}

Status weight_gradient(const OpCall& call) {
  enum { kWeightGradient, kBiasGradient, kOutputGradient, kInput };
  MatrixProduct product = product_of(call, kWeightGradient, kOutputGradient, kInput);
  product.rows = call.tensor(kOutputGradient).dim(-1);
  product.columns = call.tensor(kInput).dim(-1);
  product.inner = call.tensor(kInput).rows();
  product.transpose_left = true;
  product.accumulate = true;
  product.fused = FusedWith::kBiasGradient;
  // the library overwrites the sums where ours are added up over micro-batches
  const DeviceScratch sums(static_cast<size_t>(product.rows) * sizeof(float));
  if (sums.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for the bias gradient", call.op);
  product.bias_gradient = sums.data;
  bool is_offered = false;
  if (!is_empty(product)) MTL_RETURN_IF_ERROR(cublaslt_product_if_offered(product, &is_offered));
  if (is_offered) {
    return add_lines(call, {call.data<float>(kBiasGradient), nullptr, product.rows, true}, sums.as<float>(), 1);
  }
  return linear_weight_gradient_in_parts(call, find_kernel);
}

MTL_REGISTER_CUDA("linear_gelu_forward", forward);
MTL_REGISTER_CUDA("linear_gelu_backward", backward);
MTL_REGISTER_CUDA("linear_weight_gradient", weight_gradient);

}  // namespace
}  // namespace mtl::cuda
