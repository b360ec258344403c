// The instruction set for which a file is compiled. CMake compiles the kernels in simd/ once for each set in
// isa/sets.cmake, and MTL_ISA_HEADER names the set's file: isa/plain.h, isa/avx2.h, ... Kernels use the set
// only through the following constants and functions. If a constant calls for a different algorithm, they
// choose it with `if constexpr`. docs/contributing/instruction-sets.md shows how to add a set.
//
// Everything is in an anonymous namespace, and nothing here may instantiate inline functions or templates of
// the standard library: the linker would keep one copy for all instruction sets, and an old CPU would run the
// AVX-512 copy (tooling/checks looks for such symbols).
#pragma once

#include MTL_ISA_HEADER

// ---- constants ----
//
// kLanes              32-bit values in a vector: 4, 8 or 16
// kHasBfloat16Pairs   true if an instruction adds the products of bfloat16 pairs to float32 values
//                     (add_pair_products); matmuls of bfloat16 then use pairs, otherwise float32
// Tiles               the registers for tiles of matrices (tiles.h), or NoTiles
//
// Constants chosen by measurement:
//
// kMatmulRows, kMatmulVectors   the largest tile of a matmul's output in registers, in rows (1, 2, 4 or 8)
//                               and vectors (at most 4): rows * vectors sums, one vector of the left operand
//                               and `vectors` vectors of the right operand are live at once
// kAttentionVectors             the same for the matmuls of attention, which have 4 rows: 2 or 4 vectors
// kMostRowsInPlace              the maximum number of rows for which multiplying rows in memory is faster
//                               than packing (matmul_few_rows.h); 0: only for the very few rows that every
//                               set allows
namespace mtl {
namespace {

constexpr bool kHasTiles = Tiles::kExist;
static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16, "vectors have 128, 256 or 512 bits");
static_assert(kMatmulRows <= 8 && kLanes % kMatmulRows == 0, "a tile reads rows of one panel");
static_assert(kMatmulVectors >= 1 && kMatmulVectors <= 4 && (kAttentionVectors == 2 || kAttentionVectors == 4));

// ---- functions ----

// Fails to compile if the instruction set lacks a function, or if the function's type is wrong.
#define MTL_REQUIRE(Result, call) static_assert(__is_same(decltype(call), Result), #call " of the instruction set")

// Converts 16-bit integers to 32 bits, or 32-bit integers below 2^16 to 16 bits.
MTL_REQUIRE(VUint, widen(VHalf{}));
MTL_REQUIRE(VHalf, narrow(VUint{}));

// Rounds to bfloat16, to nearest, ties to even. A NaN stays NaN: its lowest mantissa bits are dropped and the
// quiet bit is set. Magnitudes below 2^-126 may become zero.
MTL_REQUIRE(VHalf, to_bfloat16(VFloat{}));

// Converts float16 values to float32, and float32 to float16, rounding to nearest, ties to even.
MTL_REQUIRE(VFloat, from_float16(VHalf{}));
MTL_REQUIRE(VHalf, to_float16(VFloat{}));

// These functions return the larger or smaller operand, or the second operand if either is NaN. Each is a
// single instruction, whereas the compiler translates `?:` to a comparison and a blend.
MTL_REQUIRE(VFloat, maximum(VFloat{}, VFloat{}));
MTL_REQUIRE(VFloat, minimum(VFloat{}, VFloat{}));

// Returns sum + a b, rounded once if the instruction set has fused multiplication and addition, else twice.
MTL_REQUIRE(VFloat, add_product(VFloat{}, VFloat{}, VFloat{}));

// Returns the square root, correctly rounded.
MTL_REQUIRE(VFloat, square_root(VFloat{}));

// nearest_power rounds its argument, which must be from -126 to 127, to the nearest integer n (`value` in
// Power). times_power multiplies by 2^n.
MTL_REQUIRE(Power, nearest_power(VFloat{}));
MTL_REQUIRE(VFloat, nearest_power(VFloat{}).value);
MTL_REQUIRE(VFloat, times_power(VFloat{}, Power{}));

// Returns the sum of all lanes. Repeatedly adds the upper half of the lanes to the lower half until one lane
// remains.
MTL_REQUIRE(float, sum(VFloat{}));

// Returns the largest lane. If a lane is NaN, the result may be any number or NaN.
MTL_REQUIRE(float, largest(VFloat{}));

// Returns one bit for each lane of a mask.
MTL_REQUIRE(uint32_t, bits_of_mask(VInt{}));

// Multiplies all lanes by b, with 64-bit products. Stores the products' lower halves and their upper halves.
MTL_REQUIRE(void, multiply_wide(VUint{}, uint32_t{}, static_cast<VUint*>(nullptr), static_cast<VUint*>(nullptr)));

// Multiplies the lower half of each 64-bit lane by b. The products have 64 bits.
MTL_REQUIRE(VLong, multiply_low_words(VLong{}, uint32_t{}));

// Loads the first `count` bfloat16 values and fills the rest of the vector with zeros. `count` must be less
// than `2 * kLanes`. If it is negative, nothing is loaded.
MTL_REQUIRE(VUint, load_pairs(static_cast<const bfloat16*>(nullptr), int64_t{}));

// Returns `2 * kLanes` values as bfloat16: all values of the first vector, followed by all values of the
// second vector.
MTL_REQUIRE(VUint, to_bfloat16_words(VFloat{}, VFloat{}));

// Reorders the words that to_bfloat16_words returns: each word then contains a value of the first vector in
// its lower bits, and a value of the second vector in its upper bits.
MTL_REQUIRE(VUint, interleave_halves(VUint{}));

// Multiplies bfloat16 pairs, and adds each lane's two products to the lane of `sums`. Results below 2^-126
// may become zero.
MTL_REQUIRE(VFloat, add_pair_products(VFloat{}, VUint{}, VUint{}));

#undef MTL_REQUIRE

}  // namespace
}  // namespace mtl
