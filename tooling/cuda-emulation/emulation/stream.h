// What streams and graphs are where there is no GPU: work is done when the stream comes to it
// (pending_work.h) or, while its stream is captured, when the graph is launched. Shared with the emulated
// cuBLASLt, which enqueues too.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "emulation/runtime.h"

struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> nodes;
};

struct CUstream_st {
  CUgraph_st* captured = nullptr;   // where work goes instead of being done
  bool is_invalid = false;          // the capture: by a call that must not be made in one
  void (*on_enqueue)() = nullptr;   // counts
  // put_off of pending_work.h, which other libraries are not linked with
  cudaError_t (*put_off)(cudaStream_t stream, std::function<cudaError_t()> work) = nullptr;
};

namespace mtl::emulation {

template <typename Work>
cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) return work();
  if (stream->on_enqueue != nullptr) stream->on_enqueue();
  if (stream->captured == nullptr) return stream->put_off(stream, std::move(work));
  stream->captured->nodes.emplace_back(std::move(work));
  return cudaSuccess;
}

}  // namespace mtl::emulation
