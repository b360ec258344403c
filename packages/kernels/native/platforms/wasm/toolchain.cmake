# Compiles for WebAssembly with Debian's LLVM: clang-19, lld-19, libc++-19-dev-wasm32, libc++abi-19-dev-wasm32,
# libclang-rt-19-dev-wasm32 and wasi-libc. No code throws, so that no library with exceptions is needed.
#
# MTL_WEBASSEMBLY is one of three modules: `shared` memory with a pool of threads; `single`, without shared memory and
# atomics, which computes with one thread; `relaxed`, as `shared` with the instructions of relaxed SIMD.
set(MTL_WEBASSEMBLY shared CACHE STRING "shared, single or relaxed")
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_FLAGS_INIT "-fno-exceptions -fno-rtti -mbulk-memory -mnontrapping-fptoint -msign-ext")
if(MTL_WEBASSEMBLY STREQUAL relaxed)
  set(CMAKE_SYSTEM_PROCESSOR wasm32_relaxed)
endif()
if(MTL_WEBASSEMBLY STREQUAL single)
  set(MTL_WEBASSEMBLY_WITHOUT threads)
else()
  # the memory is shared with the threads of the pool, whose code waits with instructions for atomics
  string(APPEND CMAKE_CXX_FLAGS_INIT " -matomics")
  set(MTL_WEBASSEMBLY_WITHOUT single_thread)
endif()
