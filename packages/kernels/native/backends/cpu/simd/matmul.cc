#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/simd/matmul_few_rows.h"
#include "backends/cpu/simd/matmul_lanes.h"

namespace mtl {
namespace {

// Tells whether oneDNN is faster. By measurements on Zen 4 and Zen 5 (docs/benchmarks), it is faster for
// small and for narrow matrices, for weight gradients in float32, and for float32 without AVX-512. It is
// assumed to be faster for bfloat16 on processors with AMX, where our kernels have not been measured. oneDNN
// never computes float16, nor bfloat16 without AVX-512, even if it is the selected library.
bool onednn_is_chosen(const MatmulProblem& p) {
  constexpr int64_t kFewestRows = 128, kFewestColumns = 64, kFewestInner = 64, kFewestProducts = int64_t{1} << 28;
  const bool is_float32 = p.input_dtype == DType::kFloat32;
  if (!onednn_is_built()) return false;
  if (!is_float32 && (p.input_dtype == DType::kFloat16 || MTL_ISA_LEVEL < 2)) return false;
  if (matmul_library() != MatmulLibrary::kFaster) return matmul_library() == MatmulLibrary::kOneDnn;
  return (is_float32 ? MTL_ISA_LEVEL < 2 || p.transpose_left : has_amx()) || p.rows < kFewestRows || p.columns < kFewestColumns || p.inner < kFewestInner ||
         p.batch * p.rows * p.columns * p.inner < kFewestProducts;
}

// The code that computes a matmul.
enum class Way { kReference, kFewRows, kOneDnn, kBlocks };

Status choose_way(const MatmulProblem& p, Way* way) {
  if (p.input_dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
  }
  const bool is_empty = p.batch * p.rows * p.columns * p.inner == 0;
  *way = is_empty ? Way::kReference
                  : has_few_rows(p) ? Way::kFewRows : onednn_is_chosen(p) ? Way::kOneDnn : Way::kBlocks;
  return ok_status();
}

Status matmul(const OpCall& call) {
  const MatmulProblem p = matmul_problem_of(call);
  Way way;
  MTL_RETURN_IF_ERROR(choose_way(p, &way));
  switch (way) {
    case Way::kReference:
      return find_op("matmul")->reference(call);
    case Way::kFewRows:
      return for_vector_lanes(p.input_dtype, [&](auto* lanes) { return multiply_few_rows<__typeof__(*lanes)>(p); });
    case Way::kOneDnn:
      return onednn_matmul(p);
    default:
      return for_lanes(p.input_dtype, [&](auto* lanes) { return multiply_blocked<__typeof__(*lanes)>(p); });
  }
}

Status matmul_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const MatmulProblem p = matmul_problem_of(call);
  Way way;
  MTL_RETURN_IF_ERROR(choose_way(p, &way));
  if (way == Way::kReference || way == Way::kFewRows) return ok_status();
  if (way == Way::kOneDnn) return add_onednn_scratch(p, blocks);
  return for_lanes(p.input_dtype, [&](auto* lanes) { return blocked_scratch<__typeof__(*lanes)>(p, blocks); });
}

MTL_REGISTER_CPU("matmul", matmul, matmul_scratch);

}  // namespace
}  // namespace mtl
