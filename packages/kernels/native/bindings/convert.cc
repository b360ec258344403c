#include "bindings/convert.h"

#include <cmath>

#include "bindings/memory_views.h"

namespace mtl::bindings {
namespace {

bool wrong(const Napi::CallbackInfo& info, size_t index, const char* expected) {
  throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu is not %s", index, expected));
  return false;
}

// Keeps the array alive as long as the environment, because functions store the address of its data.
using CallNumbers = Napi::Reference<Napi::Float64Array>;

}  // namespace

double* create_call_numbers(Napi::Env env, Napi::Object exports) {
  double* memory;
  Napi::Float64Array numbers = create_shared_numbers(env, kMaxCallNumbers, &memory);
  env.SetInstanceData(new CallNumbers(Napi::Persistent(numbers)));
  exports.Set("callNumbers", numbers);
  return memory;
}

void throw_status(const Napi::Env& env, Status status) {
  Napi::Error error = Napi::Error::New(env, status.message == nullptr ? "unknown failure" : status.message);
  error.Value().Set("code", Napi::String::New(env, status.code));
  discard(status);
  error.ThrowAsJavaScriptException();
}

bool read_number(const Napi::CallbackInfo& info, size_t index, double* value) {
  if (index < info.Length() && napi_get_value_double(info.Env(), info[index], value) == napi_ok) return true;
  return wrong(info, index, "a number");
}

bool read_handle(const Napi::CallbackInfo& info, size_t index, TensorHandle* handle) {
  double value;
  if (!read_number(info, index, &value)) return false;
  if (!(value >= 0 && value < 9007199254740992.0)) return wrong(info, index, "a tensor handle");
  *handle = static_cast<TensorHandle>(value);
  return true;
}

bool read_count(const Napi::CallbackInfo& info, size_t index, int maximum, int* count) {
  double value;
  if (!read_number(info, index, &value)) return false;
  if (!(value >= 0 && value <= maximum) || std::floor(value) != value) {
    throw_status(info.Env(),
                 error_status("MTL_ARGUMENT", "%g elements given, expected %d at most", value, maximum));
    return false;
  }
  *count = static_cast<int>(value);
  return true;
}

bool read_shape(const Napi::CallbackInfo& info, size_t index, int64_t* shape, int* rank) {
  if (!read_count(info, index, kMaxRank, rank)) return false;
  const double* const sizes = static_cast<const double*>(info.Data());
  for (int dim = 0; dim < *rank; ++dim) {
    if (!(sizes[dim] >= 0 && sizes[dim] < 9e15) || std::floor(sizes[dim]) != sizes[dim]) {
      throw_status(info.Env(), error_status("MTL_ARGUMENT", "dimension %d of a shape is %g, expected a non-negative integer",
                                            dim, sizes[dim]));
      return false;
    }
    shape[dim] = static_cast<int64_t>(sizes[dim]);
  }
  return true;
}

bool read_pointer(const Napi::CallbackInfo& info, size_t index, void** pointer) {
  if (index >= info.Length() || !info[index].IsExternal()) return wrong(info, index, "what an earlier call has returned");
  *pointer = info[index].As<Napi::External<void>>().Data();
  return true;
}

bool read_bytes(const Napi::CallbackInfo& info, size_t index, uint8_t** data, size_t* bytes) {
  if (index >= info.Length() || !info[index].IsTypedArray()) return wrong(info, index, "a typed array");
  const Napi::TypedArray array = info[index].As<Napi::TypedArray>();
  // the address is not read from the array's ArrayBuffer, because an array whose memory threads share has no
  // ArrayBuffer
  void* first = nullptr;
  if (napi_get_typedarray_info(info.Env(), array, nullptr, nullptr, &first, nullptr, nullptr) != napi_ok) {
    return wrong(info, index, "a typed array");
  }
  *data = static_cast<uint8_t*>(first);
  *bytes = array.ByteLength();
  return true;
}

}  // namespace mtl::bindings
