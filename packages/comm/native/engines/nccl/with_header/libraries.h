// Tables of the functions of NCCL and of the CUDA driver that the engine calls, filled at run time. The
// engine calls the driver instead of the CUDA runtime because libcuda is installed with the driver: no second
// CUDA runtime is needed, and the driver's streams and events work with every runtime in the process.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <vector>

#include "engines/nccl/nccl_engine.h"

namespace mtl::comm::nccl {

#define MTL_NCCL_FUNCTIONS(X)                                                                                      \
  X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRankConfig) X(ncclCommGetAsyncError) X(ncclCommFinalize)      \
  X(ncclCommDestroy) X(ncclCommAbort) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGroupStart) X(ncclGroupEnd)  \
  X(ncclAllReduce) X(ncclAllGather) X(ncclReduceScatter) X(ncclBroadcast) X(ncclSend) X(ncclRecv)

#define MTL_DRIVER_FUNCTIONS(X)                                                                                    \
  X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent)            \
  X(cuCtxPopCurrent) X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority) X(cuStreamDestroy)               \
  X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuMemAlloc)           \
  X(cuMemFree) X(cuMemsetD8Async) X(cuGetErrorName)

#define MTL_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
struct NcclLibraries {
  MTL_NCCL_FUNCTIONS(MTL_DECLARE_FUNCTION)
  MTL_DRIVER_FUNCTIONS(MTL_DECLARE_FUNCTION)
  int version = 0;  // of NCCL: 23007 is 2.30.7
  std::string nccl_path, driver_path;

  // Returns success, or MTL_CUDA with the driver's error name.
  Status check(CUresult result, const char* call) const;
};
#undef MTL_DECLARE_FUNCTION

// Aborts communicators that are no longer used, which ends their kernels. All aborts are in one group of
// calls, because an abort may wait for kernels of a communicator that has not been aborted yet.
void abort_together(const NcclLibraries& libraries, const std::vector<ncclComm_t>& communicators);

// Makes a CUDA context current on this thread until the end of the scope.
class ContextScope {
 public:
  ContextScope(const NcclLibraries& libraries, CUcontext context) : libraries_(libraries) {
    is_pushed_ = libraries_.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext popped;
    if (is_pushed_) libraries_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const NcclLibraries& libraries_;
  bool is_pushed_;
};

}  // namespace mtl::comm::nccl
