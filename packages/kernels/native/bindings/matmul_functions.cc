// Exports setMatmulLibrary, setMatmulChoices, matmulChoices and lastMatmulKernel, which select or report the
// code that computes a matmul.
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/matmul_choices.h"
#include "backends/cpu/onednn.h"
#include "backends/cuda/loader/cuda_loader.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

void choose_library(const Napi::CallbackInfo& info) {
  double library;
  if (!read_number(info, 0, &library)) return;
  const auto chosen = static_cast<MatmulLibrary>(static_cast<int>(library));
  if (chosen == MatmulLibrary::kOneDnn && !onednn_is_built()) {
    throw_status(info.Env(), error_status("MTL_UNSUPPORTED", "this build contains no oneDNN, expected the library faster or own"));
    return;
  }
  set_matmul_library(chosen);
}

// Reads argument 0, which must be a device that has choices: cpu, or an open device cuda, whose library is
// stored in `cuda` (null for cpu). Otherwise, leaves a pending exception and returns false.
bool read_chooser(const Napi::CallbackInfo& info, const CudaLibrary** cuda) {
  double device;
  if (!read_number(info, 0, &device)) return false;
  const auto kind = static_cast<DeviceKind>(static_cast<int>(device));
  *cuda = kind == DeviceKind::kCuda ? opened_cuda_library() : nullptr;
  if (kind == DeviceKind::kCpu || *cuda != nullptr) return true;
  throw_status(info.Env(), kind == DeviceKind::kCuda
                               ? error_status("MTL_DEVICE", "device cuda is not open in this process")
                               : error_status("MTL_DEVICE", "matmuls are chosen on the devices cpu and cuda only"));
  return false;
}

// Arguments: (device, one choice per line, true to time problems without a choice)
void set_choices(const Napi::CallbackInfo& info) {
  const CudaLibrary* cuda;
  if (!read_chooser(info, &cuda)) return;
  if (info.Length() < 3 || !info[1].IsString() || !info[2].IsBoolean()) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "choices of matmuls are a string and a boolean"));
    return;
  }
  const std::string lines = info[1].As<Napi::String>().Utf8Value();
  const bool times_others = info[2].As<Napi::Boolean>().Value();
  const Status status = cuda == nullptr ? set_cpu_matmul_choices(lines.c_str(), times_others)
                                        : cuda->set_matmul_choices(lines.c_str(), times_others);
  if (!status.ok()) throw_status(info.Env(), status);
}

// Arguments: (device)
Napi::Value get_choices(const Napi::CallbackInfo& info) {
  const CudaLibrary* cuda;
  if (!read_chooser(info, &cuda)) return {};
  return Napi::String::New(info.Env(), cuda == nullptr ? cpu_matmul_choices() : std::string(cuda->matmul_choices()));
}

// Returns the name of the way in which the last matmul on device cpu was computed; undefined before the first
// matmul.
Napi::Value last_kernel(const Napi::CallbackInfo& info) {
  const int way = last_cpu_matmul_way();
  return way < 0 ? info.Env().Undefined() : Napi::String::New(info.Env(), kMatmulWayNames[way]);
}

}  // namespace

void register_matmul_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("setMatmulLibrary", Napi::Function::New(env, choose_library));
  exports.Set("setMatmulChoices", Napi::Function::New(env, set_choices));
  exports.Set("matmulChoices", Napi::Function::New(env, get_choices));
  exports.Set("lastMatmulKernel", Napi::Function::New(env, last_kernel));
}

}  // namespace mtl::bindings
