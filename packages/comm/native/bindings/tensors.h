// Access to tensors and devices through the interface of @mtl/kernels that was passed to `useTensors`.
#pragma once

#include "group/communicator.h"
#include "mtl/tensor_handle.h"

namespace mtl::comm::bindings {

// Null before `useTensors`.
const MtlTensorApi* tensor_interface();

// Returns the interface to streams, events and pinned memory of the GPU that this process has opened. Returns
// MTL_DEVICE if this process has opened no GPU.
Status find_device(const MtlDeviceApi** device);

// If `is_staged` is true, wraps the host engine's `communicator` in a communicator that also accepts tensors
// on the GPU.
Status stage_if(bool is_staged, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::bindings
