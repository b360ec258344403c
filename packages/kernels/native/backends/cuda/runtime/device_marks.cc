#include "backends/cuda/runtime/device_marks.h"

#include <cstring>
#include <memory>

#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/graphs.h"
#include "backends/cuda/runtime/index_report.h"

namespace mtl::cuda {
namespace {

struct Mark {
  cudaEvent_t event = nullptr;
  bool is_reached = false;
  // the next two pointers refer to pinned memory; both are null if the mark has no copy
  IndexReport* report = nullptr;
  char* copied = nullptr;
  size_t bytes = 0;
};

Status reach(Mark* mark) {
  if (mark->is_reached) return ok_status();
  MTL_RETURN_IF_ERROR(use_device());
  MTL_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(mark->event));
  mark->is_reached = true;
  return ok_status();
}

// Destroys a mark after waiting for its event. The wait is necessary because the mark's copy may still be
// writing to its pinned memory, which must not be used for anything else until the event.
void destroy(void* pointer) {
  const std::unique_ptr<Mark> mark(static_cast<Mark*>(pointer));
  if (mark->event != nullptr) {
    discard(reach(mark.get()));
    cudaEventDestroy(mark->event);
  }
  if (mark->report != nullptr) pinned_memory().release(mark->report);
}

Status enqueue_copy(const void* source, size_t bytes, Mark* mark) {
  void* pinned = nullptr;
  MTL_RETURN_IF_ERROR(pinned_memory().allocate(sizeof(IndexReport) + bytes, &pinned));
  mark->report = static_cast<IndexReport*>(pinned);
  mark->copied = static_cast<char*>(pinned) + sizeof(IndexReport);
  mark->bytes = bytes;
  MTL_RETURN_IF_ERROR(move_index_report(mark->report));
  return cuda_status(cudaMemcpyAsync(mark->copied, source, bytes, cudaMemcpyDeviceToHost, compute_stream()),
                     "cudaMemcpyAsync");
}

Status enqueue(const void* source, size_t bytes, Mark* mark) {
  // the event records its time, because `milliseconds` returns the time between two events
  MTL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&mark->event, cudaEventDefault));
  if (source != nullptr) MTL_RETURN_IF_ERROR(enqueue_copy(source, bytes, mark));
  return cuda_status(cudaEventRecord(mark->event, compute_stream()), "cudaEventRecord");
}

Status create(const void* source, size_t bytes, void** mark) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(source == nullptr ? kWaiting : kCopyToHost));
  MTL_RETURN_IF_ERROR(use_device());
  auto made = std::make_unique<Mark>();
  Status status = enqueue(source, bytes, made.get());
  if (!status.ok()) {
    destroy(made.release());
    return status;
  }
  *mark = made.release();
  return ok_status();
}

Status read(void* pointer, void* destination, size_t bytes) {
  auto* const mark = static_cast<Mark*>(pointer);
  if (bytes != mark->bytes) {
    return error_status("MTL_SHAPE", "%zu bytes of a copy of %zu bytes", bytes, mark->bytes);
  }
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kWaiting));
  MTL_RETURN_IF_ERROR(reach(mark));
  if (bytes == 0) return ok_status();
  std::memcpy(destination, mark->copied, bytes);
  return take_index_report(mark->report);
}

Status milliseconds(void* pointer, void* earlier, double* milliseconds) {
  auto* const mark = static_cast<Mark*>(pointer);
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kWaiting));
  MTL_RETURN_IF_ERROR(reach(mark));
  float elapsed = 0.0f;
  MTL_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&elapsed, static_cast<Mark*>(earlier)->event, mark->event));
  *milliseconds = elapsed;
  return ok_status();
}

}  // namespace

const MarkFunctions* mark_functions() {
  static const MarkFunctions functions = {create, read, milliseconds, destroy};
  return &functions;
}

}  // namespace mtl::cuda
