#include "backends/cuda/runtime/index_report.h"

#include <mutex>

#include "backends/cuda/runtime/device.h"

namespace mtl::cuda {
namespace {

IndexReport* report = nullptr;
std::mutex report_mutex;

}  // namespace

Status open_index_report() {
  void* memory = nullptr;
  MTL_RETURN_IF_ERROR(pinned_memory().allocate(sizeof(IndexReport), &memory));
  report = static_cast<IndexReport*>(memory);
  *report = {};
  return ok_status();
}

IndexReport* index_report() { return report; }

Status take_index_report() {
  const std::lock_guard<std::mutex> lock(report_mutex);
  return take_index_report(report);
}

Status take_index_report(IndexReport* from) {
  // kernels write the report concurrently, so the host reads every value from memory each time
  volatile IndexReport* const now = from;
  if (now == nullptr || now->is_written == 0) return ok_status();
  const WrongIndex wrong = {now->wrong.op, now->wrong.tensor, now->wrong.at, now->wrong.value, now->wrong.end,
                            now->wrong.first};
  now->is_written = 0;
  now->is_taken = 0;
  return index_error(wrong);
}

}  // namespace mtl::cuda
