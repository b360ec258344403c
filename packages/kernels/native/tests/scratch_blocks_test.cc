#include "core/scratch_blocks.h"

#include "tests/native_test.h"

namespace mtl::tests {
namespace {

MTL_TEST(scratch_blocks_beyond_the_room_for_them_are_an_error) {
  ScratchBlocks blocks;
  for (int block = 0; block < ScratchBlocks::kMost; ++block) blocks.add(block);
  EXPECT(succeeded(blocks.check("some_op")));
  EXPECT(blocks.bytes[ScratchBlocks::kMost - 1] == ScratchBlocks::kMost - 1);
  blocks.add(64);
  EXPECT(failed_with(blocks.check("some_op"), "MTL_ARGUMENT"));
}

}  // namespace
}  // namespace mtl::tests
