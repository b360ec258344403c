// Tiles are registers for blocks of matrices. An instruction multiplies two tiles and adds the result to a
// third tile.
#pragma once

namespace mtl {
namespace {

// The number of a tile register as a type, because the assembler must know the number at compile time.
template <int kNumber>
struct TileNumber {};

// The tile registers for 2 x 2 tiles of sums and their operands.
constexpr TileNumber<0> kUpperLeftSums;
constexpr TileNumber<1> kUpperRightSums;
constexpr TileNumber<2> kLowerLeftSums;
constexpr TileNumber<3> kLowerRightSums;
constexpr TileNumber<4> kUpperRows;  // of the left operand
constexpr TileNumber<5> kLowerRows;
constexpr TileNumber<6> kLeftColumns;  // of the right operand
constexpr TileNumber<7> kRightColumns;

// The tile type of an instruction set without tiles. An instruction set with tiles instead has a type with
//
//   kExist      true
//   kRows       the number of rows of a tile, which is also the number of lanes of a vector
//   kRowBytes   the number of bytes of a row: kRows values of 32 bits, or pairs of bfloat16
//   begin()     a thread calls it before it uses tiles, and end() afterwards
//   zero(tile), load(tile, source, stride), store(tile, destination, stride)
//               rows begin `stride` bytes apart in memory
//   add_products(sums, left, right)
//               for i = 0 and 1: sums[row, column] += left[row, 2 * step + i] * right[step, 2 * column + i],
//               bfloat16 to float32
struct NoTiles {
  static constexpr bool kExist = false;
};

}  // namespace
}  // namespace mtl
