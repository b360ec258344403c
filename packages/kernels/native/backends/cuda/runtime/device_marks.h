// Marks in the compute stream.
#pragma once

#include "core/device_marks.h"

namespace mtl::cuda {

const MarkFunctions* mark_functions();

}  // namespace mtl::cuda
