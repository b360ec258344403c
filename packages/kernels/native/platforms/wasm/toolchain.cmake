# Compiles for WebAssembly with Debian's LLVM: clang-19, lld-19, libc++-19-dev-wasm32, libc++abi-19-dev-wasm32,
# libclang-rt-19-dev-wasm32 and wasi-libc. No code throws, so that no library with exceptions is needed.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# The memory is shared with the threads of the pool, whose code waits with instructions for atomics.
set(CMAKE_CXX_FLAGS_INIT "-fno-exceptions -fno-rtti -matomics -mbulk-memory -mnontrapping-fptoint -msign-ext")
