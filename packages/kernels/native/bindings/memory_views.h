// Views through which JavaScript accesses native memory without a copy. In the native addon, each view has an
// ArrayBuffer that refers to the memory. In WebAssembly, all views use the ArrayBuffer of the module's
// memory.
#pragma once

#include <napi.h>
#if defined(__wasm__)
#include <emnapi.h>
#endif

namespace mtl::bindings {

// Returns a view of `bytes` bytes of memory. The caller must keep the memory until end_view.
inline Napi::Value view_memory(Napi::Env env, void* data, size_t bytes) {
#if defined(__wasm__)
  napi_value view = nullptr;
  emnapi_create_memory_view(env, emnapi_uint8_array, data, bytes, nullptr, nullptr, &view);
  return {env, view};
#else
  return Napi::Uint8Array::New(env, bytes, Napi::ArrayBuffer::New(env, data, bytes), 0);
#endif
}

// Returns an array of numbers that JavaScript and native code share, and its memory. The memory exists as
// long as the array or, in WebAssembly, as long as the module.
inline Napi::Float64Array create_shared_numbers(Napi::Env env, size_t count, double** memory) {
#if defined(__wasm__)
  *memory = new double[count]();
  napi_value view = nullptr;
  emnapi_create_memory_view(env, emnapi_float64_array, *memory, count * sizeof(double), nullptr, nullptr, &view);
  return {env, view};
#else
  Napi::Float64Array numbers = Napi::Float64Array::New(env, count);
  *memory = numbers.Data();
  return numbers;
#endif
}

// Detaches the view, so that JavaScript can no longer access the memory through it. In WebAssembly, a view
// cannot be detached, but late writes stay within the module's memory.
inline void end_view([[maybe_unused]] Napi::Value view) {
#if !defined(__wasm__)
  if (view.IsTypedArray()) view.As<Napi::TypedArray>().ArrayBuffer().Detach();
#endif
}

}  // namespace mtl::bindings
