// A report on the first index out of range that a kernel has read. Kernels write it into pinned memory. After
// each wait for the device, the host reads the report and throws an error if it contains an index.
#pragma once

#include "core/index_check.h"

namespace mtl::cuda {

struct IndexReport {
  int32_t is_taken;    // set by the thread that writes the other fields
  int32_t is_written;
  WrongIndex wrong;
};

// Allocates the report. Must be called before the first kernel.
Status open_index_report();
// Returns null before open_index_report.
IndexReport* index_report();
// Returns MTL_INDEX if, since the last call, a kernel that the host has waited for has read an index out of
// range.
Status take_index_report();

// Enqueues a move of the report to `destination`, which is pinned memory. Kernels that are enqueued later
// start with an empty report. (Reports may also come from kernels that are enqueued before the host waits for
// earlier kernels.)
Status move_index_report(IndexReport* destination);
// Returns MTL_INDEX for a report with an index; the report must have been moved, and the move waited for.
Status take_index_report(IndexReport* moved);

}  // namespace mtl::cuda
