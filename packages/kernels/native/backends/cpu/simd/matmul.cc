#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/matmul_choices.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/simd/matmul_few_rows.h"
#include "backends/cpu/simd/matmul_lanes.h"

namespace mtl {
namespace {

// The sizes from which on our kernels compute a matmul faster than oneDNN. A matmul must reach all four
// sizes.
struct OwnFrom {
  int64_t rows, columns, inner, products;

  bool contains(const MatmulProblem& p) const {
    return p.rows >= rows && p.columns >= columns && p.inner >= inner &&
           p.batch * p.rows * p.columns * p.inner >= products;
  }
};

constexpr OwnFrom kNone = {INT64_MAX, 0, 0, 0};
constexpr OwnFrom kLarge = {128, 64, 64, int64_t{1} << 28};

// The limits for one kind of processor and one dtype. `transposed_left` is for weight gradients, `plain_left`
// for all other matmuls.
struct OwnMatmuls {
  OwnFrom plain_left, transposed_left;
};

// Returns the sizes from which on our kernels compute matmuls faster than oneDNN. They come from measurements
// (docs/benchmarks) with oneDNN 2.6.3 on Zen 4 and Zen 5 (AVX-512) and on Sapphire Rapids (AMX). With AMX and
// few rows, packing the right operand takes more time than tiles save.
OwnMatmuls own_matmuls(DType dtype) {
  if (!kHasBfloat16Pairs) return {kNone, kNone};
  if (dtype == DType::kFloat32) return {kLarge, kNone};
  if (kHasTiles) return {{512, 1, 1, 1}, {512, 64, 1, 1}};
  return {kLarge, kLarge};
}

// Returns true if oneDNN can compute a matmul. It cannot compute float16 and, if the instruction set does not
// multiply bfloat16 pairs, it cannot compute bfloat16.
bool can_use_onednn(const MatmulProblem& p) {
  return onednn_is_built() && p.input_dtype != DType::kFloat16 && (p.input_dtype == DType::kFloat32 || kHasBfloat16Pairs);
}

// Returns true if oneDNN is the usual library for a matmul that has no stored choice.
bool onednn_is_usual(const MatmulProblem& p) {
  if (!can_use_onednn(p)) return false;
  if (matmul_library() != MatmulLibrary::kFaster) return matmul_library() == MatmulLibrary::kOneDnn;
  const OwnMatmuls own = own_matmuls(p.input_dtype);
  return !(p.transpose_left ? own.transposed_left : own.plain_left).contains(p);
}

// From this number of rows on, oneDNN on tiles multiplies bfloat16 faster than our kernels for few rows on
// vectors (measured on Sapphire Rapids, docs/benchmarks).
constexpr int64_t kFewestRowsOfTiles = 9;

// Returns the way in which a matmul without a stored choice is computed.
MatmulWay usual_way(const MatmulProblem& p) {
  const bool suits_tiles = kHasTiles && p.input_dtype == DType::kBFloat16 && p.rows >= kFewestRowsOfTiles;
  if (has_few_rows(p) && !(suits_tiles && onednn_is_usual(p))) return MatmulWay::kFewRows;
  return onednn_is_usual(p) ? MatmulWay::kOneDnn : MatmulWay::kBlocks;
}

bool can_compute(const MatmulProblem& p, MatmulWay way) {
  switch (way) {
    case MatmulWay::kFewRows:
      return can_have_few_rows(p);
    case MatmulWay::kOneDnn:
      return can_use_onednn(p);
    default:
      return true;
  }
}

Status compute(const MatmulProblem& p, MatmulWay way) {
  switch (way) {
    case MatmulWay::kFewRows:
      return for_vector_lanes(p.input_dtype, [&](auto* lanes) { return multiply_few_rows<__typeof__(*lanes)>(p); });
    case MatmulWay::kOneDnn:
      return onednn_matmul(p);
    default:
      return for_lanes(p.input_dtype, [&](auto* lanes) { return multiply_blocked<__typeof__(*lanes)>(p); });
  }
}

bool is_empty(const MatmulProblem& p) { return p.batch * p.rows * p.columns * p.inner == 0; }

// Finds the way in which a matmul is computed: its stored choice, or the usual way.
Status find_way(const MatmulProblem& p, MatmulWay* way, bool* is_chosen) {
  if (p.input_dtype == DType::kFloat64) {
    return error_status("MTL_DTYPE", "matmul: float64 is computed on the reference device only");
  }
  *is_chosen = find_cpu_matmul_choice(p, way);
  if (!*is_chosen) *way = usual_way(p);
  if (can_compute(p, *way)) return ok_status();
  return error_status("MTL_MATMUL_CHOICES", "matmul %s: its choice, %s, cannot compute it in this build",
                      name_of_problem(p).c_str(), kMatmulWayNames[static_cast<int>(*way)]);
}

Status matmul(const OpCall& call) {
  const MatmulProblem p = matmul_problem_of(call);
  MatmulWay way;
  bool is_chosen = false;
  MTL_RETURN_IF_ERROR(find_way(p, &way, &is_chosen));
  if (is_empty(p)) return find_op("matmul")->reference(call);
  if (times_cpu_matmuls() && !is_chosen) {
    bool ways[kNumMatmulWays];
    for (int i = 0; i < kNumMatmulWays; ++i) ways[i] = can_compute(p, static_cast<MatmulWay>(i));
    MTL_RETURN_IF_ERROR(choose_cpu_matmul(p, way, ways, compute, &way));
  }
  set_last_cpu_matmul_way(way);
  return compute(p, way);
}

Status matmul_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const MatmulProblem p = matmul_problem_of(call);
  MatmulWay way;
  bool is_chosen = false;
  MTL_RETURN_IF_ERROR(find_way(p, &way, &is_chosen));
  if (is_empty(p) || way == MatmulWay::kFewRows) return ok_status();
  if (way == MatmulWay::kOneDnn) return add_onednn_scratch(p, blocks);
  return for_lanes(p.input_dtype, [&](auto* lanes) { return blocked_scratch<__typeof__(*lanes)>(p, blocks); });
}

MTL_REGISTER_CPU("matmul", matmul, matmul_scratch);

}  // namespace
}  // namespace mtl
