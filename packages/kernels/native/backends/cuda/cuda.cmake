# The CUDA library: built by `npm run dev -- build:cuda` where nvcc is installed. Machine code for Ampere and Hopper;
# PTX for later GPUs, which the driver compiles at the first start.
set(TOOLKITS "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
list(FILTER TOOLKITS EXCLUDE REGEX "^$")
file(GLOB INSTALLED_TOOLKITS /usr/local/cuda /usr/local/cuda-*)
list(SORT INSTALLED_TOOLKITS COMPARE NATURAL ORDER DESCENDING)
list(TRANSFORM TOOLKITS APPEND /bin OUTPUT_VARIABLE TOOLKIT_PROGRAMS)
list(TRANSFORM INSTALLED_TOOLKITS APPEND /bin OUTPUT_VARIABLE INSTALLED_PROGRAMS)
find_program(MTL_NVCC nvcc HINTS ${TOOLKIT_PROGRAMS} PATHS ${INSTALLED_PROGRAMS})
if(NOT MTL_NVCC)
  message(STATUS "cuda library: left out, nvcc was not found (install the CUDA toolkit 13, or set CUDA_HOME)")
  add_custom_target(mtl_cuda)
  return()
endif()

set(CMAKE_CUDA_COMPILER "${MTL_NVCC}")
set(MTL_CUDA_ARCHITECTURES "80-real;90a-real;80-virtual" CACHE STRING "What the kernels are compiled for, as CMake names it")
set(CMAKE_CUDA_ARCHITECTURES "${MTL_CUDA_ARCHITECTURES}")
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static) # nothing of CUDA is loaded at run time but the driver and cuBLASLt
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.4 or later, 13 is tested")
endif()

# cuBLASLt's header, if available (in toolkits or NVIDIA's wheels): our own declarations are compared with it.
set(WHEELS "")
foreach(root "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(root)
    file(GLOB found "${root}/lib/python3*/site-packages/nvidia/*/include")
    list(APPEND WHEELS ${found})
  endif()
endforeach()
list(TRANSFORM TOOLKITS APPEND /include OUTPUT_VARIABLE TOOLKIT_HEADERS)
unset(MTL_CUBLASLT_INCLUDE_DIR CACHE) # searched again: a wheel may have been installed meanwhile
find_path(MTL_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${TOOLKIT_HEADERS} ${WHEELS} ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})

include(native/backends/cuda/sources.cmake)
add_library(mtl_cuda SHARED ${CUDA_HOST_SOURCES} ${CUDA_KERNEL_SOURCES} ${CUDA_SHARED_SOURCES})
target_include_directories(mtl_cuda PRIVATE native native/include)
target_include_directories(mtl_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_options(mtl_cuda PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
                                        $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v -Xcompiler=-Wall>)
option(MTL_CUDA_DEBUG "Waits inside kernels that do not end print where they are and end the kernel" OFF)
target_compile_definitions(mtl_cuda PRIVATE $<$<BOOL:${MTL_CUDA_DEBUG}>:MTL_CUDA_DEBUG>)
if(MTL_CUBLASLT_INCLUDE_DIR)
  set(header "${MTL_CUBLASLT_INCLUDE_DIR}/cublasLt.h")
  set_source_files_properties(native/backends/cuda/cublaslt/cublaslt_header_check.cc PROPERTIES COMPILE_OPTIONS
                              "-isystem;${MTL_CUBLASLT_INCLUDE_DIR}")
else()
  set(header "its header not found, declarations unchecked")
endif()
find_program(MTL_NODE node)
if(MTL_NODE) # keeps the compiler's report on registers and spills next to each object file
  set_target_properties(mtl_cuda PROPERTIES CUDA_COMPILER_LAUNCHER "${MTL_NODE};${CMAKE_CURRENT_SOURCE_DIR}/native/backends/cuda/record-resources.mjs")
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX) # initial weights are made on the host
target_link_libraries(mtl_cuda PRIVATE OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})
message(STATUS "cuda library: compiled by nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${MTL_CUDA_ARCHITECTURES}; cuBLASLt: ${header}")
