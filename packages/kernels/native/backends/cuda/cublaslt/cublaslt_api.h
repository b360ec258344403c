// The part of cuBLASLt that this library uses. It is declared here because toolkits without cuBLASLt lack its
// header; the library is loaded at run time. Constants and layouts match versions 12 and 13; where the header
// is available, cublaslt_header_check.cc compares them with it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mtl::cuda::lt {

using Handle = struct HandleOpaque*;
using Description = struct DescriptionOpaque*;
using Layout = struct LayoutOpaque*;
using Preference = struct PreferenceOpaque*;

constexpr int kSuccess = 0;       // CUBLAS_STATUS_SUCCESS
constexpr int kAllocationFailed = 3;  // CUBLAS_STATUS_ALLOC_FAILED
constexpr int kInvalidValue = 7;  // CUBLAS_STATUS_INVALID_VALUE
constexpr int kExecutionFailed = 13;  // CUBLAS_STATUS_EXECUTION_FAILED
constexpr int kUnsupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED

// cudaDataType
constexpr int32_t kReal32 = 0, kReal16 = 2, kBReal16 = 14;
// cublasComputeType_t
constexpr int32_t kCompute32 = 68, kCompute32FastTf32 = 77;
// cublasOperation_t
constexpr int32_t kNone = 0, kTranspose = 1;

// cublasLtMatmulDescAttributes_t
enum class DescriptionAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kAuxiliaryPointer = 11,
  kAuxiliaryStride = 12,
  kBiasType = 26,
};

// cublasLtMatrixLayoutAttribute_t
enum class LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };

// cublasLtMatmulPreferenceAttributes_t
enum class PreferenceAttribute : int {
  kMaxWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};

// cublasLtReductionScheme_t: how the partial sums over K that several blocks compute are reduced
constexpr uint32_t kReduceInComputeType = 2;  // through the workspace, in a fixed order

// cublasLtEpilogue_t
enum class Epilogue : uint32_t {
  kDefault = 1,
  kBias = 4,
  kGeluAuxiliaryBias = 164,      // also stores the input of GELU
  kGeluGradient = 192,           // times GELU's derivative at the stored input
  kGeluGradientBiasGradient = 208,
  kBiasGradientB = 512,          // sums of operand B over the columns
};

// cublasLtMatmulAlgo_t, opaque
struct Algorithm {
  uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t
struct Choice {
  Algorithm algorithm;
  size_t workspace_bytes;
  int32_t status;
  float waves;
  int32_t reserved[4];
};

// The library's functions, by their exported names.
struct Functions {
  size_t (*cublasLtGetVersion)();
  int (*cublasLtCreate)(Handle* handle);
  int (*cublasLtMatmulDescCreate)(Description* description, int32_t compute_type, int32_t scale_type);
  int (*cublasLtMatmulDescDestroy)(Description description);
  int (*cublasLtMatmulDescSetAttribute)(Description description, DescriptionAttribute attribute, const void* value,
                                        size_t bytes);
  int (*cublasLtMatrixLayoutCreate)(Layout* layout, int32_t type, uint64_t rows, uint64_t columns, int64_t stride);
  int (*cublasLtMatrixLayoutDestroy)(Layout layout);
  int (*cublasLtMatrixLayoutSetAttribute)(Layout layout, LayoutAttribute attribute, const void* value, size_t bytes);
  int (*cublasLtMatmulPreferenceCreate)(Preference* preference);
  int (*cublasLtMatmulPreferenceDestroy)(Preference preference);
  int (*cublasLtMatmulPreferenceSetAttribute)(Preference preference, PreferenceAttribute attribute, const void* value,
                                              size_t bytes);
  int (*cublasLtMatmulAlgoGetHeuristic)(Handle handle, Description description, Layout a, Layout b, Layout c, Layout d,
                                        Preference preference, int num_asked, Choice* choices, int* num_found);
  int (*cublasLtMatmul)(Handle handle, Description description, const void* alpha, const void* a, Layout layout_a,
                        const void* b, Layout layout_b, const void* beta, const void* c, Layout layout_c, void* d,
                        Layout layout_d, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                        cudaStream_t stream);
};

}  // namespace mtl::cuda::lt
