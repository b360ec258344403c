// Instructions of AMX on processors that lack them: the illegal instruction is decoded and its effect
// computed, so that tests run the kernels as they are compiled.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_sets.h"
#include "test_program.h"

namespace mtl::tests {

// Tells whether the processor has them, and the system lets this process use them.
inline bool machine_has_amx() { return find_instruction_set("amx")->is_supported(); }

// Computes such instructions from here on, unless the processor has them.
void trap_amx_instructions();
// Returns the number of computed instructions of all threads.
int64_t num_trapped_amx_instructions();

}  // namespace mtl::tests

// A test of kernels with tiles of AMX, which is compiled twice.
#ifdef MTL_EMULATE_AMX
#define MTL_AMX_TEST(name) MTL_TEST(name)
#else
#define MTL_AMX_TEST(name)                                                       \
  static void name();                                                            \
  MTL_TEST(name##_as_instructions) {                                             \
    ::mtl::tests::trap_amx_instructions();                                       \
    const int64_t before = ::mtl::tests::num_trapped_amx_instructions();         \
    name();                                                                      \
    EXPECT(::mtl::tests::machine_has_amx() || ::mtl::tests::num_trapped_amx_instructions() > before); \
  }                                                                              \
  static void name()
#endif
