// The first index out of range that a kernel has read: kernels write it into pinned memory. The host reads it
// whenever it has waited for the device, and reports it as an error.
#pragma once

#include "core/index_check.h"

namespace mtl::cuda {

struct IndexReport {
  int32_t is_taken;    // by the thread that writes the rest
  int32_t is_written;
  WrongIndex wrong;
};

// Must be called before the first kernel.
Status open_index_report();
// Null before open.
IndexReport* index_report();
// MTL_INDEX if a kernel that the host has waited for has read an index out of range since the last call.
Status take_index_report();

// Enqueues that the report moves to `destination`, pinned memory: kernels enqueued later report as if nothing
// had been reported. (Kernels that are enqueued before the host waits for earlier ones write reports, too.)
Status move_index_report(IndexReport* destination);
// MTL_INDEX for a report that was moved and waited for.
Status take_index_report(IndexReport* moved);

}  // namespace mtl::cuda
