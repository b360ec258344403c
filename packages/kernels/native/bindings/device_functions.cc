// Exports functions for the host's threads and instruction sets, and for the memory of a device.
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/threads.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

const Backend* read_backend(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return nullptr;
  const Backend* backend = device >= 0 && device < kNumDeviceKinds
                               ? backend_of(static_cast<DeviceKind>(static_cast<int>(device)))
                               : nullptr;
  if (backend == nullptr) throw_status(info.Env(), error_status("MTL_DEVICE", "device %g is not available", device));
  return backend;
}

Napi::Value memory(const Napi::CallbackInfo& info) {
  const Backend* backend = read_backend(info);
  if (backend == nullptr) return {};
  const MemoryStatistics statistics = backend->memory_statistics();
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("bytesInUse", static_cast<double>(statistics.bytes_in_use));
  result.Set("peakBytes", static_cast<double>(statistics.peak_bytes));
  result.Set("bytesReserved", static_cast<double>(statistics.bytes_reserved));
  result.Set("numAllocations", static_cast<double>(statistics.num_allocations));
  return result;
}

void reset_peak(const Napi::CallbackInfo& info) {
  if (const Backend* backend = read_backend(info)) backend->reset_peak_memory();
}

void trim(const Napi::CallbackInfo& info) {
  if (const Backend* backend = read_backend(info)) backend->trim_memory();
}

void limit(const Napi::CallbackInfo& info) {
  double bytes;
  const Backend* backend = read_backend(info);
  if (backend == nullptr || !read_number(info, 1, &bytes)) return;
  backend->limit_memory(bytes > 0 ? static_cast<uint64_t>(bytes) : 0);
}

// Arguments: (device, name)
void push_range(const Napi::CallbackInfo& info) {
  const Backend* backend = read_backend(info);
  if (backend == nullptr || backend->push_range == nullptr || info.Length() < 2) return;
  backend->push_range(info[1].ToString().Utf8Value().c_str());
}

void pop_range(const Napi::CallbackInfo& info) {
  const Backend* backend = read_backend(info);
  if (backend != nullptr && backend->pop_range != nullptr) backend->pop_range();
}

void synchronize(const Napi::CallbackInfo& info) {
  const Backend* backend = read_backend(info);
  if (backend == nullptr) return;
  const Status status = backend->synchronize();
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value is_available(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return {};
  const bool known = device >= 0 && device < kNumDeviceKinds;
  return Napi::Boolean::New(info.Env(),
                            known && backend_of(static_cast<DeviceKind>(static_cast<int>(device))) != nullptr);
}

void set_threads(const Napi::CallbackInfo& info) {
  double count;
  if (!read_number(info, 0, &count)) return;
  const bool pin = info.Length() > 1 && info[1].ToBoolean().Value();
  const Status status = set_num_threads(static_cast<int>(count), pin);
  if (!status.ok()) throw_status(info.Env(), status);
}

void choose_instruction_set(const Napi::CallbackInfo& info) {
  const Napi::Value name = info[0];
  const Status status = name.IsString()
                            ? set_instruction_set(name.As<Napi::String>().Utf8Value().c_str())
                            : error_status("MTL_ARGUMENT", "the name of an instruction set is a string");
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value host(const Napi::CallbackInfo& info) {
  Napi::Object result = Napi::Object::New(info.Env());
  Napi::Array compiled = Napi::Array::New(info.Env()), usable = Napi::Array::New(info.Env());
  for (const InstructionSet& set : instruction_sets()) {
    if (set.is_compiled) compiled.Set(compiled.Length(), set.name);
    if (set.is_usable()) usable.Set(usable.Length(), set.name);
  }
  result.Set("numThreads", num_threads());
  result.Set("mostThreads", most_threads());
  result.Set("compiledInstructionSets", compiled);
  result.Set("usableInstructionSets", usable);
  result.Set("detectedInstructionSet", detected_instruction_set().name);
  result.Set("instructionSet", active_instruction_set().name);
  result.Set("multipliesBfloat16", multiplies_bfloat16(active_instruction_set()));
  result.Set("onednnVersion", onednn_version());
  return result;
}

}  // namespace

void register_device_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("memoryStatistics", Napi::Function::New(env, memory));
  exports.Set("resetPeakMemory", Napi::Function::New(env, reset_peak));
  exports.Set("trimMemory", Napi::Function::New(env, trim));
  exports.Set("limitMemory", Napi::Function::New(env, limit));
  exports.Set("synchronize", Napi::Function::New(env, synchronize));
  exports.Set("pushRange", Napi::Function::New(env, push_range));
  exports.Set("popRange", Napi::Function::New(env, pop_range));
  exports.Set("isAvailable", Napi::Function::New(env, is_available));
  exports.Set("setNumThreads", Napi::Function::New(env, set_threads));
  exports.Set("setInstructionSet", Napi::Function::New(env, choose_instruction_set));
  exports.Set("host", Napi::Function::New(env, host));
}

}  // namespace mtl::bindings
