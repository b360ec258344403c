// The native module: exports the functions of each group of bindings.
#include "bindings/convert.h"

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  double* const call_numbers = mtl::bindings::create_call_numbers(env, exports);
  mtl::bindings::register_tensor_functions(env, exports, call_numbers);
  mtl::bindings::register_op_functions(env, exports, call_numbers);
  mtl::bindings::register_device_functions(env, exports);
  mtl::bindings::register_host_functions(env, exports);
  mtl::bindings::register_matmul_functions(env, exports);
  mtl::bindings::register_cuda_functions(env, exports);
  mtl::bindings::register_graph_functions(env, exports);
  mtl::bindings::register_mark_functions(env, exports);
  return exports;
}

NODE_API_MODULE(mtl_kernels, initialize)
