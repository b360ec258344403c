// Runs one op: resolves handles, checks devices and the op's contract, finds the kernel of the device, counts
// FLOPs.
#pragma once

#include "core/handle_table.h"

namespace mtl {

Status run_op(int op_index, const TensorHandle* handles, int num_handles, const double* attributes,
              int num_attributes);

// Whether the device has a kernel for the op.
bool supports_op(int op_index, DeviceKind device);

// Floating-point operations of all ops that the calling thread ran since its last reset, by the formulas of
// their schemas.
double counted_flops();
void reset_counted_flops();

// Calls and seconds inside the kernel of one op on this thread; what a step spends elsewhere is overhead.
struct OpStatistics {
  double seconds = 0.0;
  double calls = 0.0;
};
OpStatistics op_statistics(int op_index);

}  // namespace mtl
