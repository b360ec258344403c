// Operating system calls that kernels need in addition to the standard library. Each folder here implements
// these functions, and the threads of backends/cpu/threads.h, for one system. CMake compiles one of the
// folders.
#pragma once

#include <stddef.h>

#include "core/status.h"

namespace mtl {

// Reserves host memory that begins at a multiple of 64 bytes. Returns null if there is not enough memory.
void* reserve_memory(size_t bytes);

// Gives back memory. `bytes` must be the number of bytes with which it was reserved.
void give_memory_back(void* data, size_t bytes);

// Returns true if the system permits this process to use the tiles of Intel's Advanced Matrix Extensions.
bool may_use_tiles();

// Opens a shared library, which is never closed, and finds a symbol in it.
Status find_in_library(const char* path, const char* symbol, void** address);

}  // namespace mtl
