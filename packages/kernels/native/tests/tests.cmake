# Everything below the bindings, without Node: `npm run test:native` builds this with MTL_SANITIZE and runs
# it.
set(TEST_HARNESS ${CMAKE_CURRENT_SOURCE_DIR}/../../tooling/native/testing)
set(CUDA_EMULATION ${CMAKE_CURRENT_SOURCE_DIR}/../../tooling/cuda-emulation)
include(${CUDA_EMULATION}/emulation.cmake)

file(GLOB TEST_SOURCES CONFIGURE_DEPENDS native/tests/*.cc ${CUDA_EMULATION}/tests/*.cc ${TEST_HARNESS}/*.cc)
add_executable(kernels_native_tests EXCLUDE_FROM_ALL ${TEST_SOURCES} $<TARGET_OBJECTS:mtl_core> ${SIMD_OBJECTS}
               $<TARGET_OBJECTS:cuda_emulated>)
add_library(cuda_of_another_version SHARED EXCLUDE_FROM_ALL native/tests/libraries/cuda_of_another_version.cc)
target_link_libraries(cuda_of_another_version PRIVATE compile_options)
target_include_directories(kernels_native_tests PRIVATE ${TEST_HARNESS} ${CUDA_EMULATION})
target_compile_definitions(kernels_native_tests PRIVATE
                           MTL_EMULATED_CUBLASLT="$<TARGET_FILE:cublaslt_emulated>"
                           MTL_CUDA_OF_ANOTHER_VERSION="$<TARGET_FILE:cuda_of_another_version>")
add_dependencies(kernels_native_tests cublaslt_emulated cuda_of_another_version)
target_link_libraries(kernels_native_tests PRIVATE compile_options ${DNNL_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})
set(AMX_TESTS native/tests/amx_test.cc native/tests/attention_amx_test.cc)
set_source_files_properties(${AMX_TESTS} PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-O2") # vectors in parts
# The same as they are compiled for processors with AMX, whose instructions the tests compute where they are illegal.
if(RUNS_avx512)
  add_library(amx_instruction_tests OBJECT EXCLUDE_FROM_ALL ${AMX_TESTS})
  target_link_libraries(amx_instruction_tests PRIVATE compile_options)
  target_include_directories(amx_instruction_tests PRIVATE ${TEST_HARNESS} ${CUDA_EMULATION})
  target_compile_options(amx_instruction_tests PRIVATE ${amx_OPTIONS})
  target_compile_definitions(amx_instruction_tests PRIVATE MTL_ISA_HEADER="backends/cpu/isa/amx.h")
  target_sources(kernels_native_tests PRIVATE $<TARGET_OBJECTS:amx_instruction_tests>)
endif()
