// Exports probeCuda, openCuda, cudaStreams and alignmentOf.
#include <string>

#include "backends/cuda/loader/cuda_loader.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

Napi::Object to_object(Napi::Env env, const CudaProbe& probe) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("driverVersion", probe.driver_version);
  result.Set("runtimeVersion", probe.runtime_version);
  Napi::Array devices = Napi::Array::New(env);
  for (int index = 0; index < probe.num_devices && index < kMaxCudaDevices; ++index) {
    const CudaDeviceProperties& properties = probe.devices[index];
    Napi::Object device = Napi::Object::New(env);
    device.Set("name", properties.name);
    device.Set("computeCapability", properties.compute_capability);
    device.Set("numMultiprocessors", properties.num_multiprocessors);
    device.Set("memoryBytes", static_cast<double>(properties.memory_bytes));
    devices.Set(static_cast<uint32_t>(index), device);
  }
  result.Set("devices", devices);
  return result;
}

// Reads the options of `open`. If an option is missing or has the wrong type, leaves a pending MTL_ARGUMENT
// exception and returns false.
bool read_options(const Napi::CallbackInfo& info, std::string* path, int32_t* device, std::string* candidates,
                  bool* allow_tf32) {
  const auto wrong = [&](const char* what) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "%s", what));
    return false;
  };
  if (info.Length() < 1 || !info[0].IsObject()) return wrong("the options are not an object");
  const Napi::Object options = info[0].As<Napi::Object>();
  const Napi::Value library = options.Get("libraryPath"), index = options.Get("deviceIndex"),
                    names = options.Get("cublasLtCandidates"), tf32 = options.Get("allowTf32");
  if (!library.IsString()) return wrong("libraryPath is not a string");
  if (!index.IsNumber()) return wrong("deviceIndex is not a number");
  if (!names.IsString()) return wrong("cublasLtCandidates is not a string");
  if (!tf32.IsBoolean()) return wrong("allowTf32 is not a boolean");
  *path = library.As<Napi::String>().Utf8Value();
  *device = index.As<Napi::Number>().Int32Value();
  *candidates = names.As<Napi::String>().Utf8Value();
  *allow_tf32 = tf32.As<Napi::Boolean>().Value();
  return true;
}

// Arguments: (path of the library)
Napi::Value probe(const Napi::CallbackInfo& info) {
  if (info.Length() < 1 || !info[0].IsString()) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "the path of the library is not a string"));
    return {};
  }
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  const CudaLibrary* library = nullptr;
  CudaProbe found;
  Status status = load_cuda_library(path.c_str(), &library);
  if (status.ok()) status = library->probe(&found);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return to_object(info.Env(), found);
}

// Arguments: ({libraryPath, deviceIndex, cublasLtCandidates, allowTf32}). The candidates are one path or name
// per line.
Napi::Value open(const Napi::CallbackInfo& info) {
  std::string path, candidates;
  int32_t device;
  bool allow_tf32;
  if (!read_options(info, &path, &device, &candidates, &allow_tf32)) return {};
  const CudaLibrary* library = nullptr;
  CudaLibraryInformation opened;
  Status status = load_cuda_library(path.c_str(), &library);
  if (status.ok()) status = open_cuda(*library, {device, candidates.c_str(), allow_tf32}, &opened);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  Napi::Object result = to_object(info.Env(), opened.probe);
  result.Set("deviceIndex", opened.device_index);
  result.Set("cublasLtPath", opened.cublaslt_path);
  result.Set("cublasLtVersion", static_cast<double>(opened.cublaslt_version));
  return result;
}

Napi::Value not_open(Napi::Env env) {
  throw_status(env, error_status("MTL_DEVICE", "device cuda is not open in this process"));
  return {};
}

Napi::Value streams(const Napi::CallbackInfo& info) {
  const MtlDeviceApi* api = cuda_device_api();
  if (api == nullptr) return not_open(info.Env());
  const auto pointer = [&](MtlStream which) {
    return Napi::BigInt::New(info.Env(), static_cast<uint64_t>(reinterpret_cast<uintptr_t>(api->stream(which))));
  };
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("deviceIndex", api->device_index);
  result.Set("compute", pointer(MTL_STREAM_COMPUTE));
  result.Set("copy", pointer(MTL_STREAM_COPY));
  result.Set("communication", pointer(MTL_STREAM_COMMUNICATION));
  return result;
}

// Arguments: (tensor). Returns the largest power of two, up to 256, that divides the tensor's address. Also
// works on devices without memory.
Napi::Value alignment_of(const Napi::CallbackInfo& info) {
  TensorHandle handle;
  if (!read_handle(info, 0, &handle)) return {};
  TensorRecord record;
  const Status status = resolve_view(handle, &record);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  const auto address = reinterpret_cast<uintptr_t>(record.view.data) | 256;
  return Napi::Number::New(info.Env(), static_cast<double>(address & ~(address - 1)));
}

}  // namespace

void register_cuda_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("probeCuda", Napi::Function::New(env, probe));
  exports.Set("openCuda", Napi::Function::New(env, open));
  exports.Set("cudaStreams", Napi::Function::New(env, streams));
  exports.Set("alignmentOf", Napi::Function::New(env, alignment_of));
}

}  // namespace mtl::bindings
