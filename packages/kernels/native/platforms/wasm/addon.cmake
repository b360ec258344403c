# The addon as a WebAssembly module: emnapi's library calls the Node-API that @emnapi/core implements in
# JavaScript.
add_executable(mtl_kernels ${BINDING_SOURCES} $<TARGET_OBJECTS:mtl_core> ${SIMD_OBJECTS})
set(MODULE_OF_shared mtl_kernels)
set(MODULE_OF_single mtl_kernels_single)
set(MODULE_OF_relaxed mtl_kernels_relaxed)
set_target_properties(mtl_kernels PROPERTIES OUTPUT_NAME ${MODULE_OF_${MTL_WEBASSEMBLY}} SUFFIX ".wasm"
                                             UNITY_BUILD ${COMPILED_TOGETHER})
target_include_directories(mtl_kernels PRIVATE ${NODE_ADDON_API_DIR} ${EMNAPI_DIR}/include/node)
target_compile_definitions(mtl_kernels PRIVATE NAPI_VERSION=9 NAPI_DISABLE_CPP_EXCEPTIONS)
target_link_libraries(mtl_kernels PRIVATE compile_options ${EMNAPI_DIR}/lib/wasm32-wasi/libemnapi-basic.a)
# 16 MiB are for what the module brings; the memory grows with the tensors.
target_link_options(mtl_kernels PRIVATE -mexec-model=reactor LINKER:--import-undefined,--strip-debug
                    LINKER:--export=malloc,--export=free,--export-table,--import-memory,--export=napi_register_wasm_v1
                    LINKER:--export-if-defined=node_api_module_get_api_version_v1
                    LINKER:--initial-memory=16777216,--max-memory=4294967296
                    LINKER:-z,stack-size=1048576,--stack-first)
if(NOT MTL_WEBASSEMBLY STREQUAL single)
  # The library of C was compiled without atomics, hence --no-check-features: threads of the pool never call it.
  target_link_options(mtl_kernels PRIVATE LINKER:--shared-memory,--no-check-features
                      LINKER:--export=__stack_pointer,--export=__wasm_init_tls,--export=__tls_size)
endif()
