// Marks in the compute stream: events that the host can wait for, with an optional copy to the host.
#pragma once

#include "core/device_marks.h"

namespace mtl::cuda {

const MarkFunctions* mark_functions();

}  // namespace mtl::cuda
