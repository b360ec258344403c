// Tiles are registers for blocks of matrices. An instruction adds the product of two tiles to a third tile.
#pragma once

namespace mtl {
namespace {

// The number of a tile register, as a type, because the assembler must know the number.
template <int kNumber>
struct TileNumber {};

// The tiles of a product of 2 x 2 tiles of sums.
constexpr TileNumber<0> kUpperLeftSums;
constexpr TileNumber<1> kUpperRightSums;
constexpr TileNumber<2> kLowerLeftSums;
constexpr TileNumber<3> kLowerRightSums;
constexpr TileNumber<4> kUpperRows;  // of the left operand
constexpr TileNumber<5> kLowerRows;
constexpr TileNumber<6> kLeftColumns;  // of the right operand
constexpr TileNumber<7> kRightColumns;

// The tiles of an instruction set without tiles. Another set has a type with
//
//   kExist      true
//   kRows       rows of a tile, which are also the lanes of a vector
//   kRowBytes   bytes of a row: kRows numbers of 32 bits, or pairs of bfloat16
//   begin()     a thread calls it before it uses tiles, and end() after
//   zero(tile), load(tile, source, stride), store(tile, destination, stride)
//               rows begin `stride` bytes apart in memory
//   add_products(sums, left, right)
//               sums[row, column] += left[row, 2 step + i] right[step, 2 column + i], bfloat16 to float32
struct NoTiles {
  static constexpr bool kExist = false;
};

}  // namespace
}  // namespace mtl
