#include "ops/matmul.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "core/op_registry.h"

namespace mtl {
namespace {

MatmulProblem problem_of(const OpCall& call, const TensorView& output, const TensorView& left, const TensorView& right,
                         const TensorView& bias) {
  const MatmulSizes sizes = matmul_sizes(call);
  return {output.data, left.data, right.data, bias.data, sizes.batch, sizes.rows, sizes.columns, sizes.inner,
          call.flag(Matmul::kTransposeLeft), call.flag(Matmul::kTransposeRight), call.flag(Matmul::kAccumulate), left.dtype, output.dtype, bias.dtype};
}

Status cast(const TensorView& output, const TensorView& input) {
  const TensorView tensors[] = {output, input};
  OpCall call;
  call.op = "cast";
  call.tensors = tensors;
  call.num_tensors = 2;
  return cpu_backend()->find_kernel("cast")(call);
}

bool is_float16(const TensorView& tensor) { return tensor.present() && tensor.dtype == DType::kFloat16; }

// Scratch memory of a `Widened`.
int64_t widened_bytes(const TensorView& source) {
  return is_float16(source) ? static_cast<int64_t>(sizeof(float)) * source.size() : 0;
}

// The view of a `Widened`, still with the tensor's own data.
TensorView widened_view(TensorView source) {
  if (is_float16(source)) source.dtype = DType::kFloat32;
  return source;
}

// Converts a float16 tensor to float32 for the length of a scope; other tensors (or none) stay unchanged.
class Widened {
 public:
  explicit Widened(const TensorView& source)
      : scratch_(static_cast<size_t>(widened_bytes(source))), source_(source), view_(widened_view(source)) {
    if (converted()) view_.data = scratch_.data;
  }
  const TensorView& view() const { return view_; }
  bool out_of_memory() const { return converted() && scratch_.data == nullptr; }
  Status read() const { return converted() ? cast(view_, source_) : ok_status(); }
  Status write_back() const { return converted() ? cast(source_, view_) : ok_status(); }

 private:
  bool converted() const { return is_float16(source_); }

  const Scratch scratch_;
  const TensorView source_;
  TensorView view_;
};

// oneDNN multiplies float16 only on CPUs with avx512_fp16 (version 3), so the matmul runs in float32: exact
// products, float32 sums and one rounding at the end. A GPU's tensor cores do the same with float16.
Status float16_matmul(const OpCall& call) {
  const Widened output(call.tensor(Matmul::kOutput)), left(call.tensor(Matmul::kLeft)),
      right(call.tensor(Matmul::kRight)),
      bias(call.tensor(Matmul::kBias));
  for (const Widened* tensor : {&output, &left, &right, &bias}) {
    if (tensor->out_of_memory()) return error_status("MTL_OUT_OF_MEMORY", "matmul: no memory for float32 copies");
  }
  MTL_RETURN_IF_ERROR(left.read());
  MTL_RETURN_IF_ERROR(right.read());
  MTL_RETURN_IF_ERROR(bias.read());
  if (call.flag(Matmul::kAccumulate)) MTL_RETURN_IF_ERROR(output.read());
  MTL_RETURN_IF_ERROR(onednn_matmul(problem_of(call, output.view(), left.view(), right.view(), bias.view())));
  return output.write_back();
}

Status refuse_float64(const OpCall& call) {
  if (call.tensor(Matmul::kLeft).dtype != DType::kFloat64) return ok_status();
  return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
}

// oneDNN rejects some empty operands; the output is then the bias alone.
bool is_empty(const OpCall& call) {
  return call.tensor(Matmul::kOutput).size() == 0 || call.tensor(Matmul::kLeft).size() == 0;
}

Status matmul(const OpCall& call) {
  MTL_RETURN_IF_ERROR(refuse_float64(call));
  if (is_empty(call)) return find_op("matmul")->reference(call);
  if (call.tensor(Matmul::kLeft).dtype == DType::kFloat16) return float16_matmul(call);
  return onednn_matmul(problem_of(call, call.tensor(Matmul::kOutput), call.tensor(Matmul::kLeft),
                                  call.tensor(Matmul::kRight), call.tensor(Matmul::kBias)));
}

Status matmul_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const TensorView &output = call.tensor(Matmul::kOutput), &left = call.tensor(Matmul::kLeft),
                   &right = call.tensor(Matmul::kRight), &bias = call.tensor(Matmul::kBias);
  MTL_RETURN_IF_ERROR(refuse_float64(call));
  if (is_empty(call)) return ok_status();
  if (left.dtype == DType::kFloat16) {
    for (const TensorView* tensor : {&output, &left, &right, &bias}) blocks->add(widened_bytes(*tensor));
  }
  MatmulScratch scratch;
  MTL_RETURN_IF_ERROR(onednn_scratch(
      problem_of(call, widened_view(output), widened_view(left), widened_view(right), widened_view(bias)), &scratch));
  blocks->add(static_cast<int64_t>(scratch.scratchpad));
  blocks->add(static_cast<int64_t>(scratch.packed_right));
  return ok_status();
}

// oneDNN chooses its own instruction set, so this one kernel serves all levels.
const CpuKernelRegistration registration("matmul", InstructionSet::kPlain, matmul, matmul_scratch);

}  // namespace
}  // namespace mtl
