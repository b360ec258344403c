// Runs an op: resolves handles, checks devices and the op's contract, selects the device's kernel, counts
// FLOPs.
#pragma once

#include "core/handle_table.h"

namespace mtl {

// Runs the op with this index. `handles` and `attributes` are in the order of the op's schema, with
// `num_values` attributes. Handle 0 represents an absent optional tensor.
Status run_op(int op_index, const TensorHandle* handles, int num_handles, const double* attributes, int num_values);

// Returns true if the device has a kernel for the op.
bool supports_op(int op_index, DeviceKind device);

// Returns the floating-point operations of all ops that the calling thread has run since its last reset. The
// formulas are in the ops' schemas.
double counted_flops();
void reset_counted_flops();
// Adds the FLOPs of a launched graph to the count.
void count_flops(double flops);

// Statistics of an op on this thread: calls, seconds inside its kernel (the rest of a step's time is
// overhead), FLOPs by the formula of its schema, and the bytes of all given inputs and outputs.
struct OpStatistics {
  double seconds = 0.0;
  double calls = 0.0;
  double flops = 0.0;
  double bytes_read = 0.0;
  double bytes_written = 0.0;
};
OpStatistics op_statistics(int op_index);

}  // namespace mtl
