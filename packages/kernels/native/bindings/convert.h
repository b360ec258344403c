// Functions that read JavaScript arguments and throw coded errors. Only this folder's files include napi.h. A
// function that fails leaves a pending exception and returns an empty value.
#pragma once

#include <napi.h>

#include "core/handle_table.h"
#include "core/op_registry.h"

namespace mtl::bindings {

// Throws `status` as an Error with a `code` property, and frees the status.
void throw_status(const Napi::Env& env, Status status);

// Reads argument `index`. If the argument has the wrong type, leaves a pending MTL_ARGUMENT exception and
// returns false.
bool read_number(const Napi::CallbackInfo& info, size_t index, double* value);
bool read_handle(const Napi::CallbackInfo& info, size_t index, TensorHandle* handle);
// Reads argument `index` as the length of a list in the call numbers (see kMaxCallNumbers).
bool read_count(const Napi::CallbackInfo& info, size_t index, int maximum, int* count);
// Reads a shape from the call numbers (see kMaxCallNumbers). Argument `index` is its rank.
bool read_shape(const Napi::CallbackInfo& info, size_t index, int64_t* shape, int* rank);
// Reads an object that an earlier call returned: a graph, a memory for graphs, or a mark.
bool read_pointer(const Napi::CallbackInfo& info, size_t index, void** pointer);
// Reads a typed array. JavaScript continues to own its memory.
bool read_bytes(const Napi::CallbackInfo& info, size_t index, uint8_t** data, size_t* bytes);

// The call numbers are a Float64Array, one per environment, in which JavaScript passes lists: shapes, and the
// tensors and attributes of an operation. JavaScript writes a list immediately before the call. Reading a
// JavaScript array would instead cost three calls into Node for each element.
constexpr int kMaxCallNumbers = 32;
static_assert(kMaxCallNumbers >= kMaxTensors + kMaxAttributes && kMaxCallNumbers >= 2 * kMaxRank);

// Creates the array of call numbers, exports it as `callNumbers`, and returns its memory. The exported
// functions receive the memory as their data.
double* create_call_numbers(Napi::Env env, Napi::Object exports);

void register_tensor_functions(Napi::Env env, Napi::Object exports, double* call_numbers);
void register_op_functions(Napi::Env env, Napi::Object exports, double* call_numbers);
void register_device_functions(Napi::Env env, Napi::Object exports);
void register_host_functions(Napi::Env env, Napi::Object exports);
void register_matmul_functions(Napi::Env env, Napi::Object exports);
void register_cuda_functions(Napi::Env env, Napi::Object exports);
void register_graph_functions(Napi::Env env, Napi::Object exports);
void register_mark_functions(Napi::Env env, Napi::Object exports);

}  // namespace mtl::bindings
