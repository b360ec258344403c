// A report on the first out-of-range index that a kernel has read. Kernels write it into pinned memory. After
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
// Returns MTL_INDEX if a kernel has read an out-of-range index since the last call. Covers only kernels that
// the host has waited for.
Status take_index_report();

// Enqueues a move of the report to `destination`, which must be pinned memory. Kernels that are enqueued
// later start with an empty report. (Kernels that are enqueued before the host waits for earlier kernels may
// also contribute to a report.)
Status move_index_report(IndexReport* destination);
// Returns MTL_INDEX if a moved report contains an index. The caller must have waited for the move.
Status take_index_report(IndexReport* moved);

}  // namespace mtl::cuda
