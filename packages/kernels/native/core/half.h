// The compiler's type for float16 numbers.
#pragma once

namespace mtl {

#if defined(__wasm__) || (defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13)
using Half = __fp16;  // there the compiler has no _Float16 for C++
#else
using Half = _Float16;
#endif

}  // namespace mtl
