// Streams, events and pinned memory for other addons (include/mtl/device_api.h).
#pragma once

#include "mtl/device_api.h"

namespace mtl::cuda {

// The table of the open device.
const MtlDeviceApi* device_api();

}  // namespace mtl::cuda
