// Exports functions for the threads and instruction sets of the host, and for the memory of a device.
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/threads.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

const char* const kInstructionSetNames[] = {"plain", "avx2", "avx512"};

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
  double level;
  if (!read_number(info, 0, &level)) return;
  const Status status = level >= 0 && level <= 2
                            ? set_instruction_set(static_cast<InstructionSet>(static_cast<int>(level)))
                            : error_status("MTL_ARGUMENT", "instruction set %g, expected 0 to 2", level);
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value host(const Napi::CallbackInfo& info) {
  Napi::Object result = Napi::Object::New(info.Env());
  Napi::Array compiled = Napi::Array::New(info.Env());
  for (int level = 0; level < 3; ++level) {
    if (contains_instruction_set(static_cast<InstructionSet>(level)))
      compiled.Set(compiled.Length(), kInstructionSetNames[level]);
  }
  result.Set("compiledInstructionSets", compiled);
  result.Set("numThreads", num_threads());
  result.Set("detectedInstructionSet", kInstructionSetNames[static_cast<int>(detected_instruction_set())]);
  result.Set("instructionSet", kInstructionSetNames[static_cast<int>(active_instruction_set())]);
  result.Set("hasAmx", has_amx());
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
