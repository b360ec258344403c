// Marks in the compute stream: events that the host can wait for, optionally with a copy of data to the host.
#pragma once

#include "core/device_marks.h"

namespace mtl::cuda {

const MarkFunctions* mark_functions();

}  // namespace mtl::cuda
