// Counts of the host's requests to the emulated device since the process began: tests compare the steps of a
// training run with exact numbers. If MTL_EMULATION_COUNTS names a file, the file with that name and the
// process id (name.123) contains the counts as 64-bit integers, in this order (emulation-counts.mjs).
#pragma once

namespace mtl::emulation {

enum Count {
  kKernels,  // launched or captured by the host; without the kernels of a launched graph
  kSynchronizations,  // calls that may wait for the device
  kCopiesToDevice,
  kCopiesToHost,
  kMemoryCalls,  // allocations from the driver and releases: these wait, too
  kEnqueued,     // calls that enqueue work: kernels, matmuls, copies, graphs
  kGraphLaunches,
  kNumCounts,
};

void count(Count what);

}  // namespace mtl::emulation
