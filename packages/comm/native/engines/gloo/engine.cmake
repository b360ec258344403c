# The gloo engine's shim: a shared library next to the addon, built where Gloo is installed. Everything else
# works without it.
list(APPEND ENGINE_LIBRARIES ${CMAKE_DL_LIBS})
find_package(Gloo QUIET)
if(NOT TARGET gloo)
  leave_out_engine(gloo "Gloo was not found (sudo apt-get install libgloo-dev)")
elseif(NOT MTL_SANITIZE)
  set(GLOO_SHIM ${CMAKE_CURRENT_SOURCE_DIR}/native/engines/gloo/shim/gloo_shim.cc)
  if(NOT DEFINED MTL_GLOO_FITS)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(MTL_GLOO_FITS ${CMAKE_BINARY_DIR}/gloo-fits ${GLOO_SHIM} CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
                OUTPUT_VARIABLE GLOO_OUTPUT)
    unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
  endif()
  if(MTL_GLOO_FITS)
    message(STATUS "gloo engine: libmtl_comm_gloo.so, against Gloo ${Gloo_VERSION}")
    add_library(mtl_comm_gloo SHARED ${GLOO_SHIM})
    target_link_libraries(mtl_comm_gloo PRIVATE gloo)
    # a thread of Gloo may outlive the code that opened the library
    target_link_options(mtl_comm_gloo PRIVATE -Wl,-z,nodelete)
  else()
    leave_out_engine(gloo "the shim does not compile against Gloo ${Gloo_VERSION} of ${Gloo_DIR}")
  endif()
endif()
