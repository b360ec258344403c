// Matmuls with tiles of AMX, compiled twice: for any processor, with emulated instructions of AMX, in vectors
// of 16 lanes that the compiler splits; and for AVX-512, with the instructions themselves, which are computed
// where the processor lacks them (amx_traps.h).
#ifndef MTL_ISA_HEADER
#define MTL_EMULATE_AMX
#define MTL_ISA_HEADER "tests/emulated_amx.h"
#endif

#include "backends/cpu/simd/matmul_on_tiles.h"

#include <vector>

#include "backends/cpu/simd/matmul_blocks.h"
#include "tests/amx_traps.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

struct Sizes {
  int64_t batch, rows, columns, inner;
};

// A tensor of small integers: products and their sums are exact, in any order.
HostTensor integers(DType dtype, const std::vector<int64_t>& shape, int64_t seed) {
  HostTensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.view().size(); ++i) tensor.set(i, static_cast<double>((i * 7919 + seed) % 7 - 3));
  return tensor;
}

bool agrees_with_the_reference(const Sizes& sizes, DType output_dtype, bool transpose_left, bool transpose_right,
                               bool accumulate) {
  const auto stored = [&](int64_t rows, int64_t columns, bool transposed) {
    std::vector<int64_t> shape = {sizes.batch, transposed ? columns : rows, transposed ? rows : columns};
    if (sizes.batch == 1) shape.erase(shape.begin());
    return shape;
  };
  const HostTensor left = integers(DType::kBFloat16, stored(sizes.rows, sizes.inner, transpose_left), 1),
                   right = integers(DType::kBFloat16, stored(sizes.inner, sizes.columns, transpose_right), 2),
                   bias = integers(output_dtype, {sizes.columns}, 3);
  const std::vector<int64_t> shape = stored(sizes.rows, sizes.columns, false);
  const HostTensor output = integers(output_dtype, shape, 4), expected = integers(output_dtype, shape, 4);
  const double attributes[] = {double(transpose_left), double(transpose_right), double(accumulate)};
  const TensorView tensors[] = {output.view(), left.view(), right.view(), bias.view()};
  run_reference("matmul", {expected.view(), left.view(), right.view(), bias.view()}, attributes);
  OpCall call;
  call.op = "matmul";
  call.tensors = tensors;
  call.num_tensors = 4;
  call.attributes = attributes;
  call.num_attributes = 3;
  return multiply_blocked<PairsOnTiles<Tiles>>(matmul_problem_of(call)).ok() && output.guards_stand() &&
         output.same_bits(expected);
}

}  // namespace

MTL_AMX_TEST(matmuls_with_tiles_of_amx_are_exact) {
  const Sizes all[] = {{1, 1, 1, 1},     {1, 5, 17, 3},     {1, 16, 32, 32},    {1, 33, 100, 70},
                       {1, 70, 31, 600}, {1, 200, 70, 1100}, {3, 20, 40, 33},
                       // tiles read the left operand from the matrix: whole rows of tiles and steps
                       {1, 48, 200, 64}, {2, 32, 130, 96},   {1, 272, 33, 1664}};
  for (const Sizes& sizes : all) {
    for (int flags = 0; flags < 16; ++flags) {
      const DType output_dtype = (flags & 8) != 0 ? DType::kFloat32 : DType::kBFloat16;
      EXPECT(agrees_with_the_reference(sizes, output_dtype, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0));
    }
  }
}

}  // namespace mtl::tests
