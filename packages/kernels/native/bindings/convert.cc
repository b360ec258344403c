#include "bindings/convert.h"

#include <cmath>

namespace mtl::bindings {
namespace {

bool wrong(const Napi::CallbackInfo& info, size_t index, const char* expected) {
  throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu is not %s", index, expected));
  return false;
}

}  // namespace

void throw_status(const Napi::Env& env, Status status) {
  Napi::Error error = Napi::Error::New(env, status.message == nullptr ? "unknown failure" : status.message);
  error.Value().Set("code", Napi::String::New(env, status.code));
  discard(status);
  error.ThrowAsJavaScriptException();
}

bool read_number(const Napi::CallbackInfo& info, size_t index, double* value) {
  if (index >= info.Length() || !info[index].IsNumber()) return wrong(info, index, "a number");
  *value = info[index].As<Napi::Number>().DoubleValue();
  return true;
}

bool read_handle(const Napi::CallbackInfo& info, size_t index, TensorHandle* handle) {
  double value;
  if (!read_number(info, index, &value)) return false;
  if (!(value >= 0 && value < 9007199254740992.0)) return wrong(info, index, "a tensor handle");
  *handle = static_cast<TensorHandle>(value);
  return true;
}

bool read_numbers(const Napi::CallbackInfo& info, size_t index, double* values, int maximum, int* count) {
  if (index >= info.Length() || !info[index].IsArray()) return wrong(info, index, "an array");
  const Napi::Array array = info[index].As<Napi::Array>();
  const uint32_t length = array.Length();
  if (length > static_cast<uint32_t>(maximum)) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu has %u elements, expected %d at most", index,
                                          length, maximum));
    return false;
  }
  for (uint32_t element = 0; element < length; ++element) {
    const Napi::Value value = array.Get(element);
    if (!value.IsNumber()) return wrong(info, index, "an array of numbers");
    values[element] = value.As<Napi::Number>().DoubleValue();
  }
  *count = static_cast<int>(length);
  return true;
}

bool read_shape(const Napi::CallbackInfo& info, size_t index, int64_t* shape, int* rank) {
  double sizes[kMaxRank];
  if (!read_numbers(info, index, sizes, kMaxRank, rank)) return false;
  for (int dim = 0; dim < *rank; ++dim) {
    if (!(sizes[dim] >= 0 && sizes[dim] < 9e15) || std::floor(sizes[dim]) != sizes[dim]) {
      return wrong(info, index, "a shape of non-negative integers");
    }
    shape[dim] = static_cast<int64_t>(sizes[dim]);
  }
  return true;
}

bool read_bytes(const Napi::CallbackInfo& info, size_t index, uint8_t** data, size_t* bytes) {
  if (index >= info.Length() || !info[index].IsTypedArray()) return wrong(info, index, "a typed array");
  const Napi::TypedArray array = info[index].As<Napi::TypedArray>();
  *data = static_cast<uint8_t*>(array.ArrayBuffer().Data()) + array.ByteOffset();
  *bytes = array.ByteLength();
  return true;
}

}  // namespace mtl::bindings
