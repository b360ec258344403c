// The interface through which other native addons (such as the addon of @mtl/comm) access a tensor's memory.
// They may include only this header, device_api.h and dtype.h. The kernels addon exports a pointer to a
// TensorApi as a JavaScript external named `tensorApi`.
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
  // Fills `memory` for a live handle. Returns 0, or -1 if the handle is invalid or has been disposed of.
  int (*resolve)(uint64_t handle, struct MtlTensorMemory* memory);
  // Fills `memory` like `resolve`, and keeps the tensor's memory until `release(*hold)`, even if the tensor
  // is disposed of earlier. Operations in progress need this.
  int (*retain)(uint64_t handle, struct MtlTensorMemory* memory, uint64_t* hold);
  // Releases the memory that `retain` has kept. Must be called exactly once for each hold; any thread may
  // call it.
  void (*release)(uint64_t hold);
  // Returns a device's streams and events (`device` is a DeviceKind, see core/backend.h); null if the device
  // has none or is not open.
  const struct MtlDeviceApi* (*device_api)(int32_t device);
};

#ifdef __cplusplus
}
#endif
