// Functions by which tests control the fakes of libcuda.so.1 and libnccl.so.2. Found by dlsym, as the engine
// finds its functions.
#pragma once

#include <cuda.h>

#define MTL_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

// libcuda.so.1: work for a stream's thread, in order; null runs it immediately.
MTL_FAKE_EXPORT void mtl_fake_enqueue(CUstream stream, void (*work)(void*), void* argument);
// From here on the stream belongs to the calling thread, like the compute stream of a program that records
// graphs of it. Counts the calls by which other threads order such streams.
MTL_FAKE_EXPORT void mtl_fake_claim(CUstream stream);
MTL_FAKE_EXPORT int mtl_fake_trespasses();
// Streams, events and allocations that have not been released.
MTL_FAKE_EXPORT int mtl_fake_live_objects();
MTL_FAKE_EXPORT int mtl_fake_has_context();

// libnccl.so.2
enum MtlFakeSetting {
  kFakeVersion,       // the version that it reports; 23007
  kFakeInitHangs,     // not 0: connecting never ends
  kFakeLaunchPolls,   // number of polls of a communicator before an operation is in the stream; 0
  kFakeLaunchIsHeld,  // not 0: no operation gets into the stream
  kFakeAsyncError,    // an ncclResult_t that every communicator reports; 0
  kFakeKernelHangs,   // not 0: operations end only by an abort
  kNumFakeSettings
};
MTL_FAKE_EXPORT void mtl_fake_set(int setting, int value);
// Numbers of communicators that were aborted, were destroyed in order, and still exist; of operations put
// into streams, and held back; of aborts and destroys that waited in vain for a kernel that hangs.
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
