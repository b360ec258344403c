// Streams and graphs without a GPU. Work is executed in the stream's order (see pending_work.h) or, while its
// stream is captured, when the graph is launched. The emulated cuBLASLt also uses this header, because it
// enqueues work.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "emulation/runtime.h"

struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> nodes;
};

struct CUstream_st {
  CUgraph_st* captured = nullptr;   // the graph that receives work instead of its execution
  bool is_invalid = false;          // the capture: invalidated by a call that it forbids
  void (*on_enqueue)() = nullptr;   // counts the calls that enqueue
  double declared_ms = 0.0;         // total that executed work declares to take on a device
  // A pointer to the function put_off in pending_work.h, for libraries that do not link pending_work.cc.
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
