// Device cuda in native tests: a GPU, or the emulation, which is linked to the test program.
#pragma once

namespace mtl::tests {

// Opens the device, once: the library that MTL_CUDA_LIBRARY names (with cuBLASLt from a folder of
// MTL_CUDA_LIBS or by name), else the emulation. False if that fails, which fails the test.
bool open_cuda_for_tests();
// Tells whether the device is a GPU, where the orders of emulated threads make no difference.
bool is_gpu_under_test();
// Tells whether the device is the emulation that is linked to the tests: its queries (last_kernel) are then
// available here.
bool is_linked_emulation_under_test();

}  // namespace mtl::tests
