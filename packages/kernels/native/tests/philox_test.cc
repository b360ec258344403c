// core/philox.h compared with the known answers that the authors publish with Random123 (kat_vectors,
// philox4x32 10).
#include "core/philox.h"

#include "tests/native_test.h"

namespace mtl::tests {
namespace {

void expect_words(const uint32_t (&counter)[4], PhiloxKey key, const uint32_t (&words)[4]) {
  const PhiloxBlock block = philox(key, counter[0], counter[1], counter[2], counter[3]);
  for (int word = 0; word < 4; ++word) EXPECT(block.words[word] == words[word]);
}

MTL_TEST(philox_gives_the_published_words) {
  const uint32_t ones = 0xffffffffu;
  expect_words({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_words({ones, ones, ones, ones}, {ones, ones}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

}  // namespace
}  // namespace mtl::tests
