// The module: every file of bindings/ registers its functions itself.
#include "bindings/convert.h"

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  mtl::comm::bindings::register_all(env, exports);
  return exports;
}

NODE_API_MODULE(mtl_comm, initialize)
