// The native module. Each file of bindings/ registers its own functions.
#include "bindings/convert.h"

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  mtl::comm::bindings::register_all(env, exports);
  exports.Set("bindings", 2);  // must equal expectedBindings in src/native/comm-addon.ts
  return exports;
}

NODE_API_MODULE(mtl_comm, initialize)
