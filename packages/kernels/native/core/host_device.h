// Marks functions that run both on the host and in CUDA kernels.
#pragma once

#if defined(__CUDACC__)
#define MTL_HOST_DEVICE __host__ __device__
#else
#define MTL_HOST_DEVICE
#endif
