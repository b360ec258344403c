#include "ops/matmul.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "core/op_registry.h"

namespace mtl {
namespace {

Status run_matmul(const OpCall& call, const TensorView& output, const TensorView& left, const TensorView& right,
                  const TensorView& bias) {
  const MatmulSizes sizes = matmul_sizes(call);
  return onednn_matmul({output.data, left.data, right.data, bias.data, sizes.batch, sizes.rows, sizes.columns,
                        sizes.inner, call.flag(Matmul::kTransposeLeft), call.flag(Matmul::kTransposeRight),
                        call.flag(Matmul::kAccumulate), left.dtype, output.dtype, bias.dtype});
}

Status cast(const TensorView& output, const TensorView& input) {
  const TensorView tensors[] = {output, input};
  OpCall call;
  call.op = "cast";
  call.tensors = tensors;
  call.num_tensors = 2;
  return cpu_backend()->find_kernel("cast")(call);
}

// A float16 tensor in float32 for the length of a scope; any other (or none) as it is.
class Widened {
 public:
  explicit Widened(const TensorView& source)
      : scratch_(source.present() && source.dtype == DType::kFloat16 ? sizeof(float) * static_cast<size_t>(source.size()) : 0),
        source_(source),
        view_(source) {
    if (!converted()) return;
    view_.dtype = DType::kFloat32;
    view_.data = scratch_.data;
  }
  const TensorView& view() const { return view_; }
  bool out_of_memory() const { return converted() && scratch_.data == nullptr; }
  Status read() const { return converted() ? cast(view_, source_) : ok_status(); }
  Status write_back() const { return converted() ? cast(source_, view_) : ok_status(); }

 private:
  bool converted() const { return source_.present() && source_.dtype == DType::kFloat16; }

  const Scratch scratch_;
  const TensorView source_;
  TensorView view_;
};

// oneDNN multiplies float16 on processors with avx512_fp16 only (version 3), so the matmul runs in
// float32: exact products, float32 sums and one rounding at the end, which is what a GPU's tensor cores do
// with float16.
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
  MTL_RETURN_IF_ERROR(run_matmul(call, output.view(), left.view(), right.view(), bias.view()));
  return output.write_back();
}

Status matmul(const OpCall& call) {
  const DType dtype = call.tensor(Matmul::kLeft).dtype;
  if (dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
  }
  // oneDNN refuses some empty operands; what is left to do then is to fill the output with the bias.
  if (call.tensor(Matmul::kOutput).size() == 0 || call.tensor(Matmul::kLeft).size() == 0) {
    return find_op("matmul")->reference(call);
  }
  if (dtype == DType::kFloat16) return float16_matmul(call);
  return run_matmul(call, call.tensor(Matmul::kOutput), call.tensor(Matmul::kLeft), call.tensor(Matmul::kRight),
                    call.tensor(Matmul::kBias));
}

// oneDNN chooses its own instruction set, so this one kernel serves all levels.
const CpuKernelRegistration registration("matmul", InstructionSet::kPlain, matmul);

}  // namespace
}  // namespace mtl
