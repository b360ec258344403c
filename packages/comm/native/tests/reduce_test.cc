// Compares the loops of every instruction set of this CPU with plain arithmetic on one value at a time.
#include <cmath>
#include <cstring>
#include <limits>

#include "engines/local/reduce.h"
#include "tests/native_test.h"

namespace mtl::comm::tests {
namespace {

using local::ReduceSet;
using local::ReduceTable;

// Calls body(table) for each instruction set of this build that this CPU supports.
template <typename Body>
void for_tables(const Body& body) {
  for (const ReduceSet& set : local::reduce_sets()) {
    if (set.is_supported()) body(*set.table);
  }
}

const ReduceTable& plain_table() { return *(local::reduce_sets().end() - 1)->table; }

float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

MTL_TEST(sums_of_bfloat16_are_rounded_once_in_rank_order) {
  const size_t count = 2053;
  std::vector<uint16_t> sources[3];
  uint32_t state = 1;
  for (std::vector<uint16_t>& source : sources) {
    for (size_t index = 0; index < count; ++index) {
      state = state * 1664525u + 1013904223u;
      // finite values of magnitudes 2^-8 to 2^7, both signs
      source.push_back(static_cast<uint16_t>((state >> 16 & 0x807f) | ((119 + (state >> 8 & 15)) << 7)));
    }
  }
  const void* pointers[3] = {sources[0].data(), sources[1].data(), sources[2].data()};
  for_tables([&](const ReduceTable& table) {
    std::vector<uint16_t> output(count);
    table.functions[static_cast<int>(DType::kBFloat16)][0](pointers, 3, output.data(), count);
    bool is_right = true;
    for (size_t index = 0; index < count; ++index) {
      float sum = from_bfloat16(sources[0][index]) + from_bfloat16(sources[1][index]);
      sum += from_bfloat16(sources[2][index]);
      // the nearest value by distance: the check does not manipulate bits
      const float got = from_bfloat16(output[index]);
      const float above = from_bfloat16(static_cast<uint16_t>(output[index] + 1));
      const float below = from_bfloat16(static_cast<uint16_t>(output[index] - 1));
      const float error = std::fabs(got - sum);
      if (sum != 0) is_right = is_right && error <= std::fabs(above - sum) && error <= std::fabs(below - sum);
    }
    EXPECT(is_right);
  });
}

MTL_TEST(all_sets_give_the_bits_of_the_plain_one_also_in_place) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    const size_t count = 1999;
    const size_t bytes = count * size_of(static_cast<DType>(dtype));
    std::vector<uint8_t> sources[3];
    uint32_t state = 7;
    for (std::vector<uint8_t>& source : sources) {
      for (size_t index = 0; index < bytes; ++index) {
        state = state * 1664525u + 1013904223u;
        source.push_back(static_cast<uint8_t>(state >> 24));
      }
      // no NaN: the payload of a sum of two NaNs depends on the CPU
      const size_t element = size_of(static_cast<DType>(dtype));
      if (dtype < 4) for (size_t index = 0; index < count; ++index) source[index * element + element - 1] &= 0xbb;
    }
    for (int reduction = 0; reduction < local::kNumReductions; ++reduction) {
      std::vector<uint8_t> expected(bytes);
      const void* pointers[3] = {sources[0].data(), sources[1].data(), sources[2].data()};
      plain_table().functions[dtype][reduction](pointers, 3, expected.data(), count);
      for_tables([&](const ReduceTable& table) {
        std::vector<uint8_t> in_place = sources[1];
        const void* aliased[3] = {sources[0].data(), in_place.data(), sources[2].data()};
        table.functions[dtype][reduction](aliased, 3, in_place.data(), count);
        EXPECT(in_place == expected);
      });
    }
  }
}

MTL_TEST(maximum_and_minimum_keep_a_nan_and_order_zeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float first[] = {nan, 1.0f, -0.0f, 0.0f, 2.0f};
  const float second[] = {1.0f, nan, 0.0f, -0.0f, 3.0f};
  const void* pointers[2] = {first, second};
  for_tables([&](const ReduceTable& table) {
    float largest[5], smallest[5];
    table.functions[0][static_cast<int>(Reduction::kMaximum)](pointers, 2, largest, 5);
    table.functions[0][static_cast<int>(Reduction::kMinimum)](pointers, 2, smallest, 5);
    EXPECT(std::isnan(largest[0]) && std::isnan(largest[1]) && std::isnan(smallest[0]) && std::isnan(smallest[1]));
    EXPECT(!std::signbit(largest[2]) && !std::signbit(largest[3]) && largest[4] == 3.0f);
    EXPECT(std::signbit(smallest[2]) && std::signbit(smallest[3]) && smallest[4] == 2.0f);
  });
}

}  // namespace
}  // namespace mtl::comm::tests
