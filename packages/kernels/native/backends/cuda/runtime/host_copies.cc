#include "backends/cuda/runtime/host_copies.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/graphs.h"
#include "backends/cuda/runtime/index_report.h"

namespace mtl::cuda {
namespace {

// Copies to the device go through two rings of sections, one in pinned memory and one in device memory. The
// copy stream transfers a section to the device's ring while the compute stream is still busy with earlier
// work. Later, the compute stream moves the section to its destination. The host waits only if it is a
// complete ring ahead of the device, which is about 60 micro-batches of 8 x 1,024 tokens.
constexpr size_t kSectionBytes = size_t{1} << 20;
constexpr int kNumSections = 8;
constexpr size_t kAlignment = 256;

struct Ring {
  char *host = nullptr, *device = nullptr;
  cudaEvent_t is_consumed[kNumSections] = {};  // the compute stream has read all of a section
  cudaEvent_t has_arrived = nullptr;           // the part that was copied last has arrived
  int section = 0;
  size_t used = 0;  // bytes used in the section
};

std::mutex mutex;
Ring ring;

Status open_ring() {
  if (ring.host != nullptr) return ok_status();
  void *host = nullptr, *device = nullptr;
  MTL_RETURN_IF_ERROR(pinned_memory().allocate(kSectionBytes * kNumSections, &host));
  MTL_RETURN_IF_CUDA_ERROR(cudaMalloc(&device, kSectionBytes * kNumSections));
  for (cudaEvent_t& event : ring.is_consumed) {
    MTL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  MTL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&ring.has_arrived, cudaEventDisableTiming));
  ring.host = static_cast<char*>(host);
  ring.device = static_cast<char*>(device);
  return ok_status();
}

// Reserves space in the ring: returns its offset, and how many of the `bytes` fit there.
Status take(size_t bytes, size_t* offset, size_t* taken) {
  if (ring.used == kSectionBytes || ring.used + std::min(bytes, kSectionBytes) > kSectionBytes) {
    MTL_RETURN_IF_CUDA_ERROR(cudaEventRecord(ring.is_consumed[ring.section], compute_stream()));
    ring.section = (ring.section + 1) % kNumSections;
    ring.used = 0;
    MTL_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(ring.is_consumed[ring.section]));  // complete if never recorded
  }
  *taken = std::min(bytes, kSectionBytes - ring.used);
  *offset = static_cast<size_t>(ring.section) * kSectionBytes + ring.used;
  ring.used += (*taken + kAlignment - 1) / kAlignment * kAlignment;
  return ok_status();
}

}  // namespace

Status copy_from_host(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kCopyFromHost));
  MTL_RETURN_IF_ERROR(use_device());
  const std::lock_guard<std::mutex> lock(mutex);
  MTL_RETURN_IF_ERROR(open_ring());
  const cudaStream_t copy_stream = stream_of(MTL_STREAM_COPY);
  for (size_t done = 0, part = 0; done < bytes; done += part) {
    size_t offset = 0;
    MTL_RETURN_IF_ERROR(take(bytes - done, &offset, &part));
    char *const pinned = ring.host + offset, *const staged = ring.device + offset;
    std::memcpy(pinned, static_cast<const char*>(source) + done, part);
    MTL_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(staged, pinned, part, cudaMemcpyHostToDevice, copy_stream));
    MTL_RETURN_IF_CUDA_ERROR(cudaEventRecord(ring.has_arrived, copy_stream));
    MTL_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(compute_stream(), ring.has_arrived, 0));
    MTL_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(static_cast<char*>(destination) + done, staged, part,
                                             cudaMemcpyDeviceToDevice, compute_stream()));
  }
  return ok_status();
}

Status copy_to_host(void* destination, const void* source, size_t bytes) {
  MTL_RETURN_IF_ERROR(refuse_while_capturing(kCopyToHost));
  MTL_RETURN_IF_ERROR(use_device());
  const std::lock_guard<std::mutex> lock(mutex);
  // reading uses separate pinned memory, because the ring may contain data that the device has not yet read
  constexpr size_t kBufferBytes = size_t{4} << 20;
  static void* buffer = nullptr;
  if (buffer == nullptr) MTL_RETURN_IF_ERROR(pinned_memory().allocate(kBufferBytes, &buffer));
  for (size_t done = 0; done < bytes; done += kBufferBytes) {
    const size_t part = std::min(kBufferBytes, bytes - done);
    MTL_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(buffer, static_cast<const char*>(source) + done, part,
                                             cudaMemcpyDeviceToHost, compute_stream()));
    MTL_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(compute_stream()));
    std::memcpy(static_cast<char*>(destination) + done, buffer, part);
  }
  return bytes == 0 ? ok_status() : take_index_report();
}

}  // namespace mtl::cuda
