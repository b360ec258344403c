// Runs an op: resolves handles, checks devices and the op's contract, selects the device's kernel, and counts
// FLOPs.
#pragma once

#include "core/handle_table.h"

namespace mtl {

// Runs the op with index `op_index`. `handles` and `attributes` are in the order of the op's schema; there
// are `num_values` attributes. Handle 0 represents an absent optional tensor.
Status run_op(int op_index, const TensorHandle* handles, int num_handles, const double* attributes, int num_values);

// Returns true if the device has a kernel for the op.
bool supports_op(int op_index, DeviceKind device);

// Returns the number of floating-point operations in all ops that the calling thread has run since its last
// reset. The ops' schemas contain the formulas.
double counted_flops();
void reset_counted_flops();
// Adds a launched graph's FLOPs to the count.
void count_flops(double flops);

// Statistics of an op on this thread: how often it was called, the seconds inside its kernel (the rest of a
// step's time is overhead), FLOPs by the formula in its schema, and the bytes of all given inputs and
// outputs.
struct OpStatistics {
  double seconds = 0.0;
  double calls = 0.0;
  double flops = 0.0;
  double bytes_read = 0.0;
  double bytes_written = 0.0;
};
OpStatistics op_statistics(int op_index);

}  // namespace mtl
