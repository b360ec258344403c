// Calls of the operating system that kernels make beyond the standard library. Each folder here defines these
// functions and the threads of backends/cpu/threads.h for one system, and CMake compiles one of the folders.
#pragma once

#include <stddef.h>

#include "core/status.h"

namespace mtl {

// Reserves memory of the host at a multiple of 64 bytes. Null: there is not so much.
void* reserve_memory(size_t bytes);

// Gives memory back that was reserved with the same number of bytes.
void give_memory_back(void* data, size_t bytes);

// Tells whether the system lets this process use the tiles of Intel's Advanced Matrix Extensions.
bool may_use_tiles();

// Opens a shared library for good, and finds one of its symbols.
Status find_in_library(const char* path, const char* symbol, void** address);

}  // namespace mtl
