// Tests of blocks that take tickets (instructions/tickets.h of @mtl/kernels) under emulation: each ticket is
// taken once, and blocks alternate when they take tickets, so that several blocks get work.
#include <algorithm>
#include <set>
#include <vector>

#include "backends/cuda/instructions/tickets.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;
using emulation::Order;

constexpr uint32_t kBlocks = 9, kTickets = 20;

// A block takes tickets until none is left, as in the forward pass of attention on Hopper.
__global__ void take_tickets(uint32_t* counter, uint32_t* takers, uint32_t* times) {
  MTL_SHARED(uint32_t, ticket, [1]);
  for (;;) {
    if (threadIdx.x == 0) ticket[0] = cuda::take_ticket(counter);
    __syncthreads();
    const uint32_t taken = ticket[0];
    __syncthreads();
    if (taken >= kTickets) return;
    if (threadIdx.x != 40) continue;
    takers[taken] = blockIdx.x;
    ++times[taken];
  }
}

// Returns the number of blocks that took a ticket.
size_t num_takers(Order order, uint32_t seed) {
  uint32_t counter = 0;
  std::vector<uint32_t> takers(kTickets), times(kTickets);
  emulation::set_order(order, seed);
  EXPECT(ran(MTL_LAUNCH(take_tickets, (Launch{kBlocks, 64}), &counter, takers.data(), times.data())));
  emulation::set_order(Order::kAscending);
  EXPECT(counter == kTickets + kBlocks);  // each block takes one ticket without work
  EXPECT(std::count(times.begin(), times.end(), 1u) == kTickets);
  return std::set<uint32_t>(takers.begin(), takers.end()).size();
}

}  // namespace

MTL_TEST(cuda_emulation_blocks_alternate_where_they_take_tickets) {
  EXPECT(num_takers(Order::kAscending, 0) == 1);
  EXPECT(num_takers(Order::kDescending, 0) == 4);  // number of resident blocks
  size_t most = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) most = std::max(most, num_takers(Order::kShuffled, seed));
  EXPECT(most > 1);
}

}  // namespace mtl::tests
