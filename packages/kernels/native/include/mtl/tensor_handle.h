// The interface through which another native addon (such as @mtl/comm's) accesses the memory of a tensor.
// Other addons may include only this header, device_api.h and dtype.h. The kernels addon exports a pointer to
// a TensorApi as a JavaScript external named `tensorApi`.
#pragma once

#include <stdint.h>

#include "mtl/device_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MTL_TENSOR_API_VERSION 6

struct MtlTensorMemory {
  void* data;       // on the tensor's device
  uint64_t bytes;   // contiguous
  int32_t dtype;    // DType of dtype.h
  int32_t device;   // DeviceKind of core/backend.h
};

struct MtlTensorApi {
  uint32_t version;
  // Fills `memory` from a live handle; returns 0, or -1 for an invalid or disposed handle.
  int (*resolve)(uint64_t handle, struct MtlTensorMemory* memory);
  // Fills `memory` as `resolve` does, and keeps the tensor's memory until `release(*hold)`, even if the
  // tensor is disposed of earlier. Operations in progress need this.
  int (*retain)(uint64_t handle, struct MtlTensorMemory* memory, uint64_t* hold);
  // Releases the memory that `retain` kept, once, on any thread.
  void (*release)(uint64_t hold);
  // Returns the streams and events of a device (DeviceKind of core/backend.h); null if the device has none or
  // is not open.
  const struct MtlDeviceApi* (*device_api)(int32_t device);
};

#ifdef __cplusplus
}
#endif
