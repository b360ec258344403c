// Exports supportsMarks, markDevice, startRead, readMark, millisecondsBetween and destroyMark, which call
// core/device_marks.h. The first argument of each function is the device's DeviceKind, as a number.
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

const MarkFunctions* find_marks(double device) {
  const Backend* const backend =
      device >= 0 && device < kNumDeviceKinds ? backend_of(static_cast<DeviceKind>(static_cast<int>(device))) : nullptr;
  return backend == nullptr ? nullptr : backend->marks;
}

Napi::Value supports_marks(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return {};
  return Napi::Boolean::New(info.Env(), find_marks(device) != nullptr);
}

const MarkFunctions* read_marks(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return nullptr;
  const MarkFunctions* const marks = find_marks(device);
  if (marks != nullptr) return marks;
  throw_status(info.Env(), error_status("MTL_UNSUPPORTED", "device %g has no marks, or is not open", device));
  return nullptr;
}

bool succeeds(const Napi::CallbackInfo& info, Status status) {
  if (!status.ok()) throw_status(info.Env(), status);
  return status.ok();
}

Napi::Value create_mark(const Napi::CallbackInfo& info, const void* source, size_t bytes) {
  const MarkFunctions* const marks = read_marks(info);
  void* mark = nullptr;
  if (marks == nullptr || !succeeds(info, marks->create(source, bytes, &mark))) return {};
  return Napi::External<void>::New(info.Env(), mark);
}

Napi::Value mark_device(const Napi::CallbackInfo& info) { return create_mark(info, nullptr, 0); }

// Arguments: (device, tensor)
Napi::Value start_read(const Napi::CallbackInfo& info) {
  TensorHandle handle;
  TensorRecord record;
  if (!read_handle(info, 1, &handle) || !succeeds(info, resolve_tensor(handle, &record))) return {};
  return create_mark(info, record.view.data, static_cast<size_t>(record.view.size()) * size_of(record.view.dtype));
}

// Arguments: (device, mark, typed array)
void read_mark(const Napi::CallbackInfo& info) {
  void* mark;
  uint8_t* data;
  size_t bytes;
  const MarkFunctions* const marks = read_marks(info);
  if (marks == nullptr || !read_pointer(info, 1, &mark) || !read_bytes(info, 2, &data, &bytes)) return;
  succeeds(info, marks->read(mark, data, bytes));
}

// Arguments: (device, mark, earlier mark)
Napi::Value milliseconds_between(const Napi::CallbackInfo& info) {
  void *mark, *earlier;
  const MarkFunctions* const marks = read_marks(info);
  if (marks == nullptr || !read_pointer(info, 1, &mark) || !read_pointer(info, 2, &earlier)) return {};
  double milliseconds = 0;
  if (!succeeds(info, marks->milliseconds(mark, earlier, &milliseconds))) return {};
  return Napi::Number::New(info.Env(), milliseconds);
}

void destroy_mark(const Napi::CallbackInfo& info) {
  void* mark;
  const MarkFunctions* const marks = read_marks(info);
  if (marks != nullptr && read_pointer(info, 1, &mark)) marks->destroy(mark);
}

}  // namespace

void register_mark_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("supportsMarks", Napi::Function::New(env, supports_marks));
  exports.Set("markDevice", Napi::Function::New(env, mark_device));
  exports.Set("startRead", Napi::Function::New(env, start_read));
  exports.Set("readMark", Napi::Function::New(env, read_mark));
  exports.Set("millisecondsBetween", Napi::Function::New(env, milliseconds_between));
  exports.Set("destroyMark", Napi::Function::New(env, destroy_mark));
}

}  // namespace mtl::bindings
