// Operating system calls that kernels need in addition to the standard library. Each folder here implements
// these functions and the threads of backends/cpu/threads.h for one system. CMake compiles one folder.
#pragma once

#include <stddef.h>

#include "core/status.h"

namespace mtl {

// Reserves memory of the host at a multiple of 64 bytes. Returns null if there is not enough memory.
void* reserve_memory(size_t bytes);

// Gives memory back that was reserved with the same number of bytes.
void give_memory_back(void* data, size_t bytes);

// Returns true if the system lets this process use the tiles of Intel's Advanced Matrix Extensions.
bool may_use_tiles();

// Opens a shared library permanently, and finds a symbol.
Status find_in_library(const char* path, const char* symbol, void** address);

}  // namespace mtl
