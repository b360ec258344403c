// The interface of @mtl/kernels to tensors and devices, as passed to `useTensors`.
#pragma once

#include "group/communicator.h"
#include "mtl/tensor_handle.h"

namespace mtl::comm::bindings {

// Null before `useTensors`.
const MtlTensorApi* tensor_interface();

// Streams, events and pinned memory of the GPU that this process has opened; MTL_DEVICE if there is none.
Status find_device(const MtlDeviceApi** device);

// Wraps the host's engine `communicator`, if `is_staged`, in one that also accepts tensors of the GPU.
Status stage_if(bool is_staged, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::bindings
