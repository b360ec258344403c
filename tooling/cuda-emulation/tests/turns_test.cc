// Blocks that wait for other blocks (instructions/turns.h of @mtl/kernels) under emulation: that their turns
// come in order however blocks alternate, that a wait that is left out shows, and that waiting for a block
// that cannot begin is detected.
#include <cstring>
#include <vector>

#include "backends/cuda/instructions/turns.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;
using emulation::Order;

struct Counters {
  uint32_t ticket, turn, num_done;
};

enum class Turns { kByTicket, kByBlock, kNoWait };

// Every block writes its turn at the next place. Threads of several warps wait for the one that keeps turns.
__global__ void write_in_turn(Counters* counters, uint32_t* places, Turns how) {
  MTL_SHARED(uint32_t, turn, [1]);
  if (threadIdx.x == 0) turn[0] = how == Turns::kByBlock ? blockIdx.x : cuda::take_ticket(&counters->ticket);
  __syncthreads();
  if (threadIdx.x == 40 && how != Turns::kNoWait) cuda::wait_for_count(&counters->turn, turn[0]);
  __syncthreads();
  if (threadIdx.x == 7) places[counters->num_done++] = turn[0];
  __syncthreads();
  if (threadIdx.x == 40) cuda::add_to_count(&counters->turn);
}

constexpr uint32_t kBlocks = 9;

// Tells whether the turns of all blocks came in order.
bool are_in_order(Turns how, Order order, uint32_t seed) {
  Counters counters = {};
  std::vector<uint32_t> places(kBlocks, ~0u);
  emulation::set_order(order, seed);
  EXPECT(ran(MTL_LAUNCH(write_in_turn, (Launch{kBlocks, 64}), &counters, places.data(), how)));
  emulation::set_order(Order::kAscending);
  EXPECT(counters.turn == kBlocks && counters.num_done == kBlocks);
  for (uint32_t turn = 0; turn < kBlocks; ++turn) {
    if (places[turn] != turn) return false;
  }
  return true;
}

}  // namespace

MTL_TEST(cuda_emulation_blocks_take_turns) {
  EXPECT(are_in_order(Turns::kByTicket, Order::kAscending, 0));
  EXPECT(are_in_order(Turns::kByTicket, Order::kDescending, 0));
  for (uint32_t seed = 0; seed < 20; ++seed) EXPECT(are_in_order(Turns::kByTicket, Order::kShuffled, seed));
}

MTL_TEST(cuda_emulation_shows_a_wait_for_other_blocks_that_is_left_out) {
  EXPECT(!are_in_order(Turns::kNoWait, Order::kDescending, 0));
  int num_wrong = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) num_wrong += !are_in_order(Turns::kNoWait, Order::kShuffled, seed);
  EXPECT(num_wrong > 0);
}

// Blocks begin in any order: those that wait may leave no room for those that they wait for.
MTL_TEST(cuda_emulation_detects_a_wait_for_a_block_that_cannot_begin) {
  Counters counters = {};
  std::vector<uint32_t> places(kBlocks);
  emulation::set_order(Order::kDescending);
  const cudaError_t status = MTL_LAUNCH(write_in_turn, (Launch{kBlocks, 64}), &counters, places.data(), Turns::kByBlock);
  emulation::set_order(Order::kAscending);
  EXPECT(status == cudaErrorLaunchFailure && std::strstr(emulation::error(), "1 at a wait for other blocks") != nullptr);
  emulation::clear_error();
}

}  // namespace mtl::tests
