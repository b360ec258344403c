// The functions with which tests control the fake libcuda.so.1 and libnccl.so.2. Tests find them with dlsym,
// as the engine finds the libraries' functions.
#pragma once

#include <cuda.h>

#define MTL_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

// libcuda.so.1: enqueues work for a stream's thread; the null stream runs it immediately.
MTL_FAKE_EXPORT void mtl_fake_enqueue(CUstream stream, void (*work)(void*), void* argument);
// Marks the stream as owned by the calling thread from now on, like the compute stream of a program that
// records graphs. Calls by which other threads order such a stream are counted.
MTL_FAKE_EXPORT void mtl_fake_claim(CUstream stream);
MTL_FAKE_EXPORT int mtl_fake_trespasses();
// Returns the number of streams, events and allocations that have not been released.
MTL_FAKE_EXPORT int mtl_fake_live_objects();
MTL_FAKE_EXPORT int mtl_fake_has_context();

// libnccl.so.2: settings; the default is 0 if the comment does not end with another one
enum MtlFakeSetting {
  kFakeVersion,       // the version that the library reports; 23007
  kFakeInitHangs,     // not 0: connecting never ends
  kFakeLaunchPolls,   // number of polls of a communicator before an operation is in the stream
  kFakeLaunchIsHeld,  // not 0: operations never get into their streams
  kFakeAsyncError,    // an ncclResult_t that every communicator reports
  kFakeKernelHangs,   // not 0: operations end only by an abort
  kNumFakeSettings
};
MTL_FAKE_EXPORT void mtl_fake_set(int setting, int value);
// Counters: communicators that were aborted, that were destroyed in order, and that still exist; operations
// that were put into streams, and that are held back; aborts and destroys that waited in vain for a hanging
// kernel.
enum MtlFakeCount {
  kFakeAborts,
  kFakeDestroys,
  kFakeCommunicators,
  kFakeLaunches,
  kFakeHeld,
  kFakeStuck,
  kNumFakeCounts
};
MTL_FAKE_EXPORT int mtl_fake_count(int count);
