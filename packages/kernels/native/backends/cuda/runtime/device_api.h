// Provides streams, events and pinned memory to other native addons (see include/mtl/device_api.h).
#pragma once

#include "mtl/device_api.h"

namespace mtl::cuda {

// The table of the open device.
const MtlDeviceApi* device_api();

}  // namespace mtl::cuda
