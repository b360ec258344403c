// The few names of the CUDA runtime that launchers need, where its headers are missing. Streams are handed through and
// mean nothing: a launch returns when the kernel has ended.
#pragma once

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorNotSupported = 801, cudaErrorLaunchFailure = 719 };

struct CUstream_st;
using cudaStream_t = CUstream_st*;
