// Exports run, operations, supports, countedFlops, resetCountedFlops and operationStatistics.
#include "bindings/convert.h"
#include "core/op_registry.h"
#include "core/run_op.h"

namespace mtl::bindings {
namespace {

// Arguments: (operation). The call numbers contain the handles of all tensors in the operation's schema,
// followed by all attributes.
void run(const Napi::CallbackInfo& info) {
  double op;
  if (!read_number(info, 0, &op)) return;
  const OpEntry* const entry = op_at(static_cast<int>(op));
  const int num_handles = entry == nullptr ? 0 : num_tensors(entry->schema);
  const int num_values = entry == nullptr ? 0 : num_attributes(entry->schema);
  const double* const values = static_cast<const double*>(info.Data());
  TensorHandle handles[kMaxTensors];
  for (int index = 0; index < num_handles; ++index) {
    handles[index] = values[index] >= 0 && values[index] < 9007199254740992.0 ? static_cast<TensorHandle>(values[index])
                                                                              : ~TensorHandle{0};
  }
  const Status status = run_op(static_cast<int>(op), handles, num_handles, values + num_handles, num_values);
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Array names(Napi::Env env, const char* const* list, int maximum) {
  Napi::Array array = Napi::Array::New(env);
  for (int index = 0; index < maximum && list[index] != nullptr; ++index) {
    array.Set(static_cast<uint32_t>(index), Napi::String::New(env, list[index]));
  }
  return array;
}

Napi::Value operations(const Napi::CallbackInfo& info) {
  Napi::Array all = Napi::Array::New(info.Env());
  for (int index = 0; index < num_ops(); ++index) {
    const OpSchema& schema = op_at(index)->schema;
    Napi::Object entry = Napi::Object::New(info.Env());
    entry.Set("name", schema.name);
    entry.Set("numOutputs", schema.num_outputs);
    entry.Set("tensors", names(info.Env(), schema.tensors, kMaxTensors));
    entry.Set("attributes", names(info.Env(), schema.attributes, kMaxAttributes));
    all.Set(static_cast<uint32_t>(index), entry);
  }
  return all;
}

Napi::Value supports_operation(const Napi::CallbackInfo& info) {
  double op, device;
  if (!read_number(info, 0, &op) || !read_number(info, 1, &device)) return {};
  const bool known = device >= 0 && device < kNumDeviceKinds;
  return Napi::Boolean::New(
      info.Env(), known && supports_op(static_cast<int>(op), static_cast<DeviceKind>(static_cast<int>(device))));
}

Napi::Value flops(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), counted_flops()); }
void reset_flops(const Napi::CallbackInfo&) { reset_counted_flops(); }

Napi::Value all_statistics(const Napi::CallbackInfo& info) {
  Napi::Array all = Napi::Array::New(info.Env());
  for (int index = 0; index < num_ops(); ++index) {
    const OpStatistics counted = op_statistics(index);
    Napi::Object entry = Napi::Object::New(info.Env());
    entry.Set("name", op_at(index)->schema.name);
    entry.Set("calls", counted.calls);
    entry.Set("seconds", counted.seconds);
    entry.Set("flops", counted.flops);
    entry.Set("bytesRead", counted.bytes_read);
    entry.Set("bytesWritten", counted.bytes_written);
    all.Set(static_cast<uint32_t>(index), entry);
  }
  return all;
}

}  // namespace

void register_op_functions(Napi::Env env, Napi::Object exports, double* call_numbers) {
  exports.Set("run", Napi::Function::New(env, run, nullptr, call_numbers));
  exports.Set("operations", Napi::Function::New(env, operations));
  exports.Set("supports", Napi::Function::New(env, supports_operation));
  exports.Set("countedFlops", Napi::Function::New(env, flops));
  exports.Set("resetCountedFlops", Napi::Function::New(env, reset_flops));
  exports.Set("operationStatistics", Napi::Function::New(env, all_statistics));
}

}  // namespace mtl::bindings
