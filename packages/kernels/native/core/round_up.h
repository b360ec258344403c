// Returns the smallest multiple of a number that is not below a value.
#pragma once

#include <cstddef>

namespace mtl {

constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace mtl
