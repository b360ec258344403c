#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/simd/matmul_few_rows.h"
#include "backends/cpu/simd/matmul_lanes.h"

namespace mtl {
namespace {

// The smallest matmuls that our kernels compute faster than oneDNN. They need all four sizes.
struct OwnFrom {
  int64_t rows, columns, inner, products;

  bool contains(const MatmulProblem& p) const {
    return p.rows >= rows && p.columns >= columns && p.inner >= inner &&
           p.batch * p.rows * p.columns * p.inner >= products;
  }
};

constexpr OwnFrom kNone = {INT64_MAX, 0, 0, 0};
constexpr OwnFrom kLarge = {128, 64, 64, int64_t{1} << 28};

// The same for one kind of processor and one dtype: weight gradients, whose left operand is transposed, and
// all other matmuls.
struct OwnMatmuls {
  OwnFrom plain_left, transposed_left;
};

// Returns our share of the matmuls that both libraries can compute, by measurements (docs/benchmarks) on Zen
// 4 and Zen 5 (AVX-512) and Sapphire Rapids (AMX); oneDNN is 2.6.3. With AMX the right operand's packing
// costs more than tiles gain for few rows.
OwnMatmuls own_matmuls(DType dtype) {
  if (!kHasBfloat16Pairs) return {kNone, kNone};
  if (dtype == DType::kFloat32) return {kLarge, kNone};
  if (kHasTiles) return {{512, 1, 1, 1}, {512, 64, 1, 1}};
  return {kLarge, kLarge};
}

// Tells whether oneDNN computes a matmul. It never computes float16, nor bfloat16 where the instruction set
// has no products of its pairs, even if it is the selected library.
bool onednn_is_chosen(const MatmulProblem& p) {
  const bool is_float32 = p.input_dtype == DType::kFloat32;
  if (!onednn_is_built()) return false;
  if (!is_float32 && (p.input_dtype == DType::kFloat16 || !kHasBfloat16Pairs)) return false;
  if (matmul_library() != MatmulLibrary::kFaster) return matmul_library() == MatmulLibrary::kOneDnn;
  const OwnMatmuls own = own_matmuls(p.input_dtype);
  return !(p.transpose_left ? own.transposed_left : own.plain_left).contains(p);
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
