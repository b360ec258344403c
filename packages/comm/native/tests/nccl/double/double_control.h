// What tests ask of the doubles of libcuda.so.1 and libnccl.so.2. Found by dlsym, as the engine finds its
// functions.
#pragma once

#include <cuda.h>

#define MTL_DOUBLE_EXPORT extern "C" __attribute__((visibility("default")))

// libcuda.so.1: work for a stream's thread, in order; null runs it here and now.
MTL_DOUBLE_EXPORT void mtl_double_enqueue(CUstream stream, void (*work)(void*), void* argument);
// From here on the stream is the calling thread's, as the compute stream of a program that records graphs of
// it is: calls by which other threads order it are counted, of all such streams.
MTL_DOUBLE_EXPORT void mtl_double_claim(CUstream stream);
MTL_DOUBLE_EXPORT int mtl_double_trespasses();
// Streams, events and allocations that have not been given back.
MTL_DOUBLE_EXPORT int mtl_double_live_objects();
MTL_DOUBLE_EXPORT int mtl_double_has_context();

// libnccl.so.2
enum MtlDoubleSetting {
  kDoubleVersion,       // that it claims to be; 23007
  kDoubleInitHangs,     // not 0: connecting never ends
  kDoubleLaunchPolls,   // how often a communicator must be polled before its first operation is in the stream; 0
  kDoubleAsyncError,    // an ncclResult_t that every communicator reports; 0
  kDoubleKernelHangs,   // not 0: operations end only by an abort
  kNumDoubleSettings
};
MTL_DOUBLE_EXPORT void mtl_double_set(int setting, int value);
// Communicators that were aborted, were destroyed in order, and are still there; operations put into streams,
// and held back.
enum MtlDoubleCount { kDoubleAborts, kDoubleDestroys, kDoubleCommunicators, kDoubleLaunches, kDoubleHeld, kNumDoubleCounts };
MTL_DOUBLE_EXPORT int mtl_double_count(int count);
