// The interface of @mtl/kernels to tensors and devices, as `useTensors` has given it.
#pragma once

#include "group/communicator.h"
#include "mtl/tensor_handle.h"

namespace mtl::comm::bindings {

// Null before `useTensors`.
const MtlTensorApi* tensor_interface();

// Streams, events and pinned memory of the GPU that this process has opened; MTL_DEVICE where it has none.
Status find_device(const MtlDeviceApi** device);

// The engine of the host, or over it one that takes tensors of the GPU as well.
Status stage_if(bool is_staged, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::bindings
