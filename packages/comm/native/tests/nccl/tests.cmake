# `npm run test:native` tests the nccl engine with fakes of its libraries; `npm run test:nccl` tests it with
# the real ones, on a GPU. Not published.
file(GLOB NCCL_TEST_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*_test.cc" "${TEST_HARNESS}/*.cc")
add_executable(comm_nccl_tests EXCLUDE_FROM_ALL ${NCCL_TEST_SOURCES} "${CMAKE_CURRENT_LIST_DIR}/nccl_tests.cc"
               $<TARGET_OBJECTS:mtl_comm_core> ${SIMD_OBJECTS})
target_include_directories(comm_nccl_tests PRIVATE ${TEST_HARNESS})
target_link_libraries(comm_nccl_tests PRIVATE compile_options ${ENGINE_LIBRARIES} Threads::Threads)
cmake_language(DEFER CALL add_dependencies comm_native_tests comm_nccl_tests) # built with the tests, run after them

if(NCCL_SOURCES MATCHES "with_header")
  set(FAKE_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/nccl-fakes")
  foreach(pair "cuda 1" "nccl 2")
    separate_arguments(pair)
    list(GET pair 0 name)
    list(GET pair 1 version)
    add_library(${name}_fake SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/fake/${name}_fake.cc")
    target_include_directories(${name}_fake SYSTEM PRIVATE "${MTL_NCCL_FOUND}" "${MTL_CUDA_FOUND}")
    target_link_libraries(${name}_fake PRIVATE compile_options Threads::Threads)
    set_target_properties(${name}_fake PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
                          LIBRARY_OUTPUT_DIRECTORY "${FAKE_FOLDER}" BUILD_RPATH "${FAKE_FOLDER}")
  endforeach()
  target_link_libraries(nccl_fake PRIVATE cuda_fake)
  add_dependencies(comm_nccl_tests cuda_fake nccl_fake)

  # for ranks that are processes, next to the addon (test/cuda)
  add_library(nccl_process_fake SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/fake/nccl_process_fake.cc")
  target_include_directories(nccl_process_fake SYSTEM PRIVATE "${MTL_NCCL_FOUND}" "${MTL_CUDA_FOUND}")
  target_link_libraries(nccl_process_fake PRIVATE compile_options cuda_fake)
  set_target_properties(nccl_process_fake PROPERTIES OUTPUT_NAME nccl SOVERSION 2 BUILD_RPATH "${FAKE_FOLDER}"
                        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/nccl-process-fakes")
  target_include_directories(comm_nccl_tests SYSTEM PRIVATE "${MTL_NCCL_FOUND}" "${MTL_CUDA_FOUND}")
  target_compile_definitions(comm_nccl_tests PRIVATE MTL_NCCL_FAKES="${FAKE_FOLDER}")

  add_executable(comm_nccl_device_tests EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/device/device_tests.cc"
                 $<TARGET_OBJECTS:mtl_comm_core> ${SIMD_OBJECTS})
  target_include_directories(comm_nccl_device_tests SYSTEM PRIVATE "${MTL_NCCL_FOUND}" "${MTL_CUDA_FOUND}")
  target_link_libraries(comm_nccl_device_tests PRIVATE compile_options ${ENGINE_LIBRARIES} Threads::Threads)
else()
  add_custom_target(nccl_process_fake) # tests that need it are skipped
endif()
