// Checks our declarations against NVIDIA's header at compile time, if the header is available.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include "backends/cuda/cublaslt/cublaslt_api.h"

namespace mtl::cuda::lt {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && kUnsupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kInvalidValue == CUBLAS_STATUS_INVALID_VALUE && kAllocationFailed == CUBLAS_STATUS_ALLOC_FAILED);
static_assert(kExecutionFailed == CUBLAS_STATUS_EXECUTION_FAILED);
static_assert(kReal32 == CUDA_R_32F && kReal16 == CUDA_R_16F && kBReal16 == CUDA_R_16BF);
static_assert(kCompute32 == CUBLAS_COMPUTE_32F && kCompute32FastTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kNone == CUBLAS_OP_N && kTranspose == CUBLAS_OP_T);
static_assert(static_cast<int>(DescriptionAttribute::kTransposeA) == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(static_cast<int>(DescriptionAttribute::kTransposeB) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(static_cast<int>(DescriptionAttribute::kEpilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(static_cast<int>(DescriptionAttribute::kBiasPointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(static_cast<int>(DescriptionAttribute::kAuxiliaryPointer) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
static_assert(static_cast<int>(DescriptionAttribute::kAuxiliaryStride) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
static_assert(static_cast<int>(DescriptionAttribute::kBiasType) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(static_cast<int>(LayoutAttribute::kBatchCount) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(static_cast<int>(LayoutAttribute::kBatchStride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(static_cast<int>(PreferenceAttribute::kMaxWorkspaceBytes) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::kReductionSchemes) == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(static_cast<int>(PreferenceAttribute::kAlignmentA) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::kAlignmentB) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::kAlignmentC) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(static_cast<int>(PreferenceAttribute::kAlignmentD) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(static_cast<int>(Epilogue::kDefault) == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(static_cast<int>(Epilogue::kBias) == CUBLASLT_EPILOGUE_BIAS);
static_assert(static_cast<int>(Epilogue::kGeluAuxiliaryBias) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
static_assert(static_cast<int>(Epilogue::kGeluGradient) == CUBLASLT_EPILOGUE_DGELU);
static_assert(static_cast<int>(Epilogue::kGeluGradientBiasGradient) == CUBLASLT_EPILOGUE_DGELU_BGRAD);
static_assert(static_cast<int>(Epilogue::kBiasGradientB) == CUBLASLT_EPILOGUE_BGRADB);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Choice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Choice, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace mtl::cuda::lt
#endif
