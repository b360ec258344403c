// Reading JavaScript arguments and raising coded errors: shared by the files of this folder, the only ones that include
// napi.h. A function that fails leaves a pending exception and returns an empty value.
#pragma once

#include <napi.h>

#include "core/handle_table.h"

namespace mtl::bindings {

// Throws `status` as an Error with a `code` property and frees it.
void throw_status(const Napi::Env& env, Status status);

// Reads argument `index`; false with a pending MTL_ARGUMENT exception when it is of another type.
bool read_number(const Napi::CallbackInfo& info, size_t index, double* value);
bool read_handle(const Napi::CallbackInfo& info, size_t index, TensorHandle* handle);
// Reads an array of up to `maximum` numbers.
bool read_numbers(const Napi::CallbackInfo& info, size_t index, double* values, int maximum, int* count);
bool read_shape(const Napi::CallbackInfo& info, size_t index, int64_t* shape, int* rank);
// Reads a typed array; its memory stays JavaScript's.
bool read_bytes(const Napi::CallbackInfo& info, size_t index, uint8_t** data, size_t* bytes);

void register_tensor_functions(Napi::Env env, Napi::Object exports);
void register_op_functions(Napi::Env env, Napi::Object exports);
void register_device_functions(Napi::Env env, Napi::Object exports);

}  // namespace mtl::bindings
