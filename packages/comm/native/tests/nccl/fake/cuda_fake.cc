// A fake of libcuda.so.1 for tests without a GPU: device memory is host memory, tests/thread_stream.h
// provides the streams and events.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "fake_control.h"
#include "tests/thread_stream.h"

namespace {

std::atomic<int> live_objects{0};
thread_local int num_contexts = 0;
int the_context;

}  // namespace

struct CUevent_st : mtl::comm::tests::ThreadEvent {};
struct CUstream_st : mtl::comm::tests::ThreadStream {};

namespace {

// The streams of this fake library. Any other pointer is a stream of another library, such as the emulated
// CUDA runtime, and gets a thread when it is first used.
std::mutex streams_mutex;
std::set<CUstream> own_streams;
std::map<CUstream, std::thread::id> claims;
std::atomic<int> trespasses{0};
std::map<CUstream, CUstream> foreign_streams;

void note_who_orders(CUstream stream) {
  const std::lock_guard<std::mutex> lock(streams_mutex);
  const auto claim = claims.find(stream);
  if (claim != claims.end() && claim->second != std::this_thread::get_id()) ++trespasses;
}

CUstream known_stream(CUstream stream) {
  const std::lock_guard<std::mutex> lock(streams_mutex);
  if (own_streams.count(stream) > 0) return stream;
  CUstream& known = foreign_streams[stream];
  if (known == nullptr) known = new CUstream_st;
  return known;
}

void enqueue(CUstream stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  known_stream(stream)->enqueue(std::move(work));
}

}  // namespace

void mtl_fake_enqueue(CUstream stream, void (*work)(void*), void* argument) {
  enqueue(stream, [=] { work(argument); });
}
void mtl_fake_claim(CUstream stream) {
  const std::lock_guard<std::mutex> lock(streams_mutex);
  claims[stream] = std::this_thread::get_id();
}
int mtl_fake_trespasses() { return trespasses; }
int mtl_fake_live_objects() { return live_objects; }
int mtl_fake_has_context() { return num_contexts > 0; }

#define NEEDS_CONTEXT \
  if (num_contexts == 0) return CUDA_ERROR_INVALID_CONTEXT

MTL_FAKE_EXPORT CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
MTL_FAKE_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= 8) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++live_objects;
  *context = reinterpret_cast<CUcontext>(&the_context);
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  --live_objects;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuCtxPushCurrent(CUcontext) {
  ++num_contexts;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  NEEDS_CONTEXT;
  --num_contexts;
  *context = reinterpret_cast<CUcontext>(&the_context);
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  NEEDS_CONTEXT;
  *lowest = 0;
  *highest = -5;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  NEEDS_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING || priority != -5) return CUDA_ERROR_INVALID_VALUE;
  ++live_objects;
  *stream = new CUstream_st;
  const std::lock_guard<std::mutex> lock(streams_mutex);
  own_streams.insert(*stream);
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  NEEDS_CONTEXT;
  {
    const std::lock_guard<std::mutex> lock(streams_mutex);
    own_streams.erase(stream);
    claims.erase(stream);
  }
  delete stream;  // CUDA would not wait here; work that never ends becomes a hang that tests detect
  --live_objects;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuEventCreate(CUevent* event, unsigned int) {
  NEEDS_CONTEXT;
  ++live_objects;
  *event = new CUevent_st;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuEventDestroy(CUevent event) {
  NEEDS_CONTEXT;
  --live_objects;
  delete event;
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  NEEDS_CONTEXT;
  note_who_orders(stream);
  event->record([=](std::function<void()> work) { enqueue(stream, std::move(work)); });
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  NEEDS_CONTEXT;
  note_who_orders(stream);
  event->make_wait([=](std::function<void()> work) { enqueue(stream, std::move(work)); });
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuEventQuery(CUevent event) {
  NEEDS_CONTEXT;
  return event->is_reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
MTL_FAKE_EXPORT CUresult cuMemAlloc(CUdeviceptr* data, size_t bytes) {
  NEEDS_CONTEXT;
  ++live_objects;
  *data = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuMemFree(CUdeviceptr data) {
  NEEDS_CONTEXT;
  --live_objects;
  std::free(reinterpret_cast<void*>(data));
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t bytes, CUstream stream) {
  NEEDS_CONTEXT;
  enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(data), value, bytes); });
  return CUDA_SUCCESS;
}
MTL_FAKE_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
                                               : "CUDA_ERROR_OF_THE_FAKE";
  return CUDA_SUCCESS;
}
