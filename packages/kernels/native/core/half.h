// The compiler's type for float16 numbers.
#pragma once

namespace mtl {

#if defined(__wasm__)
using Half = __fp16;  // clang has no _Float16 for WebAssembly
#else
using Half = _Float16;
#endif

}  // namespace mtl
