// probeCuda, openCuda, cudaStreams
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

bool read_text(const Napi::CallbackInfo& info, size_t index, std::string* text) {
  if (index >= info.Length() || !info[index].IsString()) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu is not a string", index));
    return false;
  }
  *text = info[index].As<Napi::String>().Utf8Value();
  return true;
}

// (path of the library)
Napi::Value probe(const Napi::CallbackInfo& info) {
  std::string path;
  if (!read_text(info, 0, &path)) return {};
  const CudaLibrary* library = nullptr;
  CudaProbe found;
  Status status = load_cuda_library(path.c_str(), &library);
  if (status.ok()) status = library->probe(&found);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return to_object(info.Env(), found);
}

// (path of the library, device index, candidates for cuBLASLt, whether TF32 is allowed)
Napi::Value open(const Napi::CallbackInfo& info) {
  std::string path, candidates;
  double device;
  if (!read_text(info, 0, &path) || !read_number(info, 1, &device) || !read_text(info, 2, &candidates)) return {};
  const bool allow_tf32 = info.Length() > 3 && info[3].ToBoolean().Value();
  const CudaLibrary* library = nullptr;
  CudaLibraryInformation opened;
  Status status = load_cuda_library(path.c_str(), &library);
  if (status.ok()) status = open_cuda(*library, {static_cast<int32_t>(device), candidates.c_str(), allow_tf32}, &opened);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  Napi::Object result = to_object(info.Env(), opened.probe);
  result.Set("deviceIndex", opened.device_index);
  result.Set("cublasLtPath", opened.cublaslt_path);
  result.Set("cublasLtVersion", static_cast<double>(opened.cublaslt_version));
  return result;
}

Napi::Value streams(const Napi::CallbackInfo& info) {
  const MtlDeviceApi* api = cuda_device_api();
  if (api == nullptr) {
    throw_status(info.Env(), error_status("MTL_DEVICE", "device cuda is not open in this process"));
    return {};
  }
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

}  // namespace

void register_cuda_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("probeCuda", Napi::Function::New(env, probe));
  exports.Set("openCuda", Napi::Function::New(env, open));
  exports.Set("cudaStreams", Napi::Function::New(env, streams));
}

}  // namespace mtl::bindings
