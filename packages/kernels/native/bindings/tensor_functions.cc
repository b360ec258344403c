// Exports createTensor, createView, createStridedView, release, write, read, lend, takeBack, zero,
// numLiveTensors, setPoison and tensorApi.
#include <cmath>

#include "backends/cuda/loader/cuda_loader.h"
#include "bindings/convert.h"
#include "bindings/memory_views.h"
#include "mtl/tensor_handle.h"

namespace mtl::bindings {
namespace {

Napi::Value create(const Napi::CallbackInfo& info) {
  double device, dtype;
  int64_t shape[kMaxRank];
  int rank;
  if (!read_number(info, 0, &device) || !read_number(info, 1, &dtype) || !read_shape(info, 2, shape, &rank)) return {};
  if (!(device >= 0 && device < kNumDeviceKinds) || !(dtype >= 0 && dtype < kNumDTypes)) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "unknown device %g or dtype %g", device, dtype));
    return {};
  }
  TensorHandle handle;
  const Status status = create_tensor(static_cast<DeviceKind>(static_cast<int>(device)),
                                      static_cast<DType>(static_cast<int>(dtype)), shape, rank, &handle);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

bool read_offset(const Napi::CallbackInfo& info, size_t index, int64_t* offset) {
  double given;
  if (!read_number(info, index, &given)) return false;
  if (!(given >= 0 && given < 9007199254740992.0) || given != std::floor(given)) {
    throw_status(info.Env(), error_status("MTL_SHAPE", "a view from element %g on, expected a non-negative integer", given));
    return false;
  }
  *offset = static_cast<int64_t>(given);
  return true;
}

Napi::Value view(const Napi::CallbackInfo& info) {
  TensorHandle base, handle;
  int64_t offset, shape[kMaxRank];
  int rank;
  if (!read_handle(info, 0, &base) || !read_offset(info, 1, &offset) || !read_shape(info, 2, shape, &rank)) return {};
  const Status status = create_view(base, offset, shape, rank, &handle);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

// Creates a strided view. The call numbers contain the shape, followed by the strides.
Napi::Value strided_view(const Napi::CallbackInfo& info) {
  TensorHandle base, handle;
  int64_t offset, shape[kMaxRank], strides[kMaxRank];
  int rank;
  if (!read_handle(info, 0, &base) || !read_offset(info, 1, &offset) || !read_shape(info, 2, shape, &rank)) return {};
  const double* const given = static_cast<const double*>(info.Data()) + rank;
  for (int dim = 0; dim < rank; ++dim) {
    if (!(given[dim] >= 0 && given[dim] < 9e15) || given[dim] != std::floor(given[dim])) {
      throw_status(info.Env(), error_status("MTL_ARGUMENT", "stride %d of a view is %g, expected a non-negative integer", dim,
                                            given[dim]));
      return {};
    }
    strides[dim] = static_cast<int64_t>(given[dim]);
  }
  const Status status = create_strided_view(base, offset, shape, strides, rank, &handle);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

void release(const Napi::CallbackInfo& info) {
  TensorHandle handle;
  if (!read_handle(info, 0, &handle)) return;
  const Status status = release_tensor(handle);
  if (!status.ok()) throw_status(info.Env(), status);
}

// Reads the tensor in argument 0 and the typed array in argument 1, which must have the same size in bytes.
bool read_transfer(const Napi::CallbackInfo& info, TensorRecord* record, uint8_t** data, size_t* bytes) {
  TensorHandle handle;
  if (!read_handle(info, 0, &handle) || !read_bytes(info, 1, data, bytes)) return false;
  Status status = resolve_tensor(handle, record);
  if (status.ok()) {
    const size_t tensor_bytes = static_cast<size_t>(record->view.size()) * size_of(record->view.dtype);
    if (tensor_bytes != *bytes) {
      status = error_status("MTL_SHAPE", "a typed array of %zu bytes for a tensor of %zu bytes", *bytes, tensor_bytes);
    }
  }
  if (!status.ok()) throw_status(info.Env(), status);
  return status.ok();
}

void write(const Napi::CallbackInfo& info) {
  TensorRecord record;
  uint8_t* data;
  size_t bytes;
  if (!read_transfer(info, &record, &data, &bytes)) return;
  const Status status = backend_of(record.device)->copy_from_host(record.view.data, data, bytes);
  if (!status.ok()) throw_status(info.Env(), status);
}

void read(const Napi::CallbackInfo& info) {
  TensorRecord record;
  uint8_t* data;
  size_t bytes;
  if (!read_transfer(info, &record, &data, &bytes)) return;
  const Status status = backend_of(record.device)->copy_to_host(data, record.view.data, bytes);
  if (!status.ok()) throw_status(info.Env(), status);
}

// Returns a view of a host tensor's memory. The view is valid until takeBack, and the caller must keep the
// tensor until then.
Napi::Value lend(const Napi::CallbackInfo& info) {
  TensorHandle handle;
  TensorRecord record;
  if (!read_handle(info, 0, &handle)) return {};
  Status status = resolve_tensor(handle, &record);
  if (status.ok() && record.device != DeviceKind::kCpu) {
    status = error_status("MTL_DEVICE", "the memory of a tensor that is not on the cpu, expected a tensor of device cpu");
  }
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  const size_t bytes = static_cast<size_t>(record.view.size()) * size_of(record.view.dtype);
  return view_memory(info.Env(), record.view.data, bytes);
}

// Ends the view in argument 0.
void take_back(const Napi::CallbackInfo& info) {
  if (info.Length() > 0) end_view(info[0]);
}

void zero(const Napi::CallbackInfo& info) {
  TensorHandle handle;
  if (!read_handle(info, 0, &handle)) return;
  TensorRecord record;
  Status status = resolve_tensor(handle, &record);
  if (status.ok()) {
    status = backend_of(record.device)
                 ->fill(record.view.data, 0, static_cast<size_t>(record.view.size()) * size_of(record.view.dtype));
  }
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value num_live(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(num_live_tensors()));
}

void poison(const Napi::CallbackInfo& info) { set_poison(info.Length() > 0 && info[0].ToBoolean().Value()); }

int resolve_for_addons(uint64_t handle, MtlTensorMemory* memory) {
  TensorRecord record;
  const Status status = resolve_tensor(handle, &record);
  if (!status.ok()) {
    discard(status);
    return -1;
  }
  memory->data = record.view.data;
  memory->bytes = static_cast<uint64_t>(record.view.size()) * size_of(record.view.dtype);
  memory->dtype = static_cast<int32_t>(record.view.dtype);
  memory->device = static_cast<int32_t>(record.device);
  return 0;
}

// Retains a tensor's memory for a separate addon. Like a view, it counts as a live tensor, so that unreleased
// memory shows as a leak.
int retain_for_addons(uint64_t handle, MtlTensorMemory* memory, uint64_t* hold) {
  if (resolve_for_addons(handle, memory) != 0) return -1;
  const int64_t shape[] = {static_cast<int64_t>(memory->bytes / size_of(static_cast<DType>(memory->dtype)))};
  const Status status = create_view(handle, 0, shape, 1, hold);
  if (status.ok()) return 0;
  discard(status);
  return -1;
}

void release_for_addons(uint64_t hold) {
  const Status status = release_tensor(hold);
  if (!status.ok()) discard(status);  // released twice: harmless because of the handle's generation
}

const MtlDeviceApi* device_api_for_addons(int32_t device) {
  return device == static_cast<int32_t>(DeviceKind::kCuda) ? cuda_device_api() : nullptr;
}

const MtlTensorApi tensor_api = {MTL_TENSOR_API_VERSION, resolve_for_addons, retain_for_addons, release_for_addons,
                                 device_api_for_addons};

}  // namespace

void register_tensor_functions(Napi::Env env, Napi::Object exports, double* call_numbers) {
  exports.Set("createTensor", Napi::Function::New(env, create, nullptr, call_numbers));
  exports.Set("createView", Napi::Function::New(env, view, nullptr, call_numbers));
  exports.Set("createStridedView", Napi::Function::New(env, strided_view, nullptr, call_numbers));
  exports.Set("release", Napi::Function::New(env, release));
  exports.Set("write", Napi::Function::New(env, write));
  exports.Set("read", Napi::Function::New(env, read));
  exports.Set("lend", Napi::Function::New(env, lend));
  exports.Set("takeBack", Napi::Function::New(env, take_back));
  exports.Set("zero", Napi::Function::New(env, zero));
  exports.Set("numLiveTensors", Napi::Function::New(env, num_live));
  exports.Set("setPoison", Napi::Function::New(env, poison));
  exports.Set("tensorApi", Napi::External<MtlTensorApi>::New(env, const_cast<MtlTensorApi*>(&tensor_api)));
}

}  // namespace mtl::bindings
