// Counts of the host's requests to the emulated device since the process began. Tests compare the counts in
// training steps with exact numbers. If MTL_EMULATION_COUNTS names a file, the counts are in the file with
// this name and the process id (name.123). They are 64-bit integers in the following order, which
// emulation-counts.mjs repeats.
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
