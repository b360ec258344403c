#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/simd/matmul_amx.h"
#include "backends/cpu/simd/matmul_blocks.h"
#include "backends/cpu/simd/matmul_few_rows.h"

namespace mtl {
namespace {

template <typename T>
struct FloatLanes : Singles<T>, VectorTiles<FloatProducts> {
  using Products = FloatProducts;
};

#if MTL_ISA_LEVEL == 2
struct PairLanes : BFloat16Pairs, VectorTiles<BFloat16PairProducts> {
  using Products = BFloat16PairProducts;
};
using BFloat16Lanes = PairLanes;
#else
using BFloat16Lanes = FloatLanes<bfloat16>;
#endif

// Calls `body` with a null pointer of the lanes that vectors multiply in float32, bfloat16 or float16.
template <typename Body>
MTL_INLINE Status for_vector_lanes(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(static_cast<FloatLanes<float>*>(nullptr));
    case DType::kBFloat16:
      return body(static_cast<BFloat16Lanes*>(nullptr));
    default:
      return body(static_cast<FloatLanes<float16>*>(nullptr));
  }
}

// The same with tiles of AMX where the processor has them.
template <typename Body>
MTL_INLINE Status for_lanes(DType dtype, const Body& body) {
#ifdef MTL_HAS_AMX_KERNELS
  if (dtype == DType::kBFloat16 && has_amx()) return body(static_cast<AmxPairs*>(nullptr));
#endif
  return for_vector_lanes(dtype, body);
}

// The faster one was measured on Zen 4 and Zen 5 (docs/benchmarks): oneDNN is, of small and of narrow
// matrices, of weight gradients in float32, and of float32 without AVX-512. Of bfloat16 on processors with
// AMX it is taken to be, as long as these kernels have not been measured there. It does not multiply float16,
// nor bfloat16 without AVX-512, whatever library is chosen.
bool onednn_is_chosen(const MatmulProblem& p) {
  constexpr int64_t kFewestRows = 128, kFewestColumns = 64, kFewestInner = 64, kFewestProducts = int64_t{1} << 28;
  const bool is_float32 = p.input_dtype == DType::kFloat32;
  if (!is_float32 && (p.input_dtype == DType::kFloat16 || MTL_ISA_LEVEL < 2)) return false;
  if (matmul_library() != MatmulLibrary::kFaster) return matmul_library() == MatmulLibrary::kOneDnn;
  return (is_float32 ? MTL_ISA_LEVEL < 2 || p.transpose_left : has_amx()) || p.rows < kFewestRows || p.columns < kFewestColumns || p.inner < kFewestInner ||
         p.batch * p.rows * p.columns * p.inner < kFewestProducts;
}

// How a matmul is computed.
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
