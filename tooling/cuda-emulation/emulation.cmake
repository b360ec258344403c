# The CUDA library compiled for the host: its kernels' threads are fibers, the CUDA runtime and cuBLASLt are
# replaced. Tests open it in place of the real one, through the same interface.
include(native/backends/cuda/sources.cmake)
file(GLOB EMULATION_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/emulation/*.cc)
set(CUDA_KERNEL_OPTIONS -x c++)
if(MTL_SANITIZE) # of undefined behaviour, what small tensors can show: the other checks double the time to compile
  list(APPEND CUDA_KERNEL_OPTIONS -fno-sanitize=undefined -fsanitize=alignment,bounds)
endif()
set_source_files_properties(${CUDA_KERNEL_SOURCES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${CUDA_KERNEL_OPTIONS}")
add_library(cuda_emulated OBJECT EXCLUDE_FROM_ALL ${EMULATION_SOURCES} ${CUDA_KERNEL_SOURCES} ${CUDA_HOST_SOURCES})
target_link_libraries(cuda_emulated PRIVATE compile_options)
target_include_directories(cuda_emulated BEFORE PRIVATE ${CMAKE_CURRENT_LIST_DIR}/toolkit ${CMAKE_CURRENT_LIST_DIR})
# `#pragma unroll`; registers of two 16-bit numbers are read as 32-bit ones, which nvcc allows
target_compile_options(cuda_emulated PRIVATE -Wno-unknown-pragmas -fno-strict-aliasing)
target_compile_options(cuda_emulated PRIVATE -O2)
# with sanitizers too, although everything else is then -O1: every step of every thread runs this code
set_source_files_properties(${EMULATION_SOURCES} PROPERTIES COMPILE_OPTIONS -O2)

add_library(mtl_cuda_emulated SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:cuda_emulated> ${CUDA_SHARED_SOURCES})
target_link_libraries(mtl_cuda_emulated PRIVATE compile_options ${CMAKE_DL_LIBS})
if(NOT MTL_SANITIZE) # a source that is missing is noticed here, not when the library is opened
  target_link_options(mtl_cuda_emulated PRIVATE -Wl,-z,defs)
endif()

file(GLOB EMULATED_CUBLASLT CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cublaslt/*.cc)
add_library(cublaslt_emulated SHARED EXCLUDE_FROM_ALL ${EMULATED_CUBLASLT})
target_link_libraries(cublaslt_emulated PRIVATE compile_options)
target_include_directories(cublaslt_emulated BEFORE PRIVATE ${CMAKE_CURRENT_LIST_DIR}/toolkit ${CMAKE_CURRENT_LIST_DIR})
