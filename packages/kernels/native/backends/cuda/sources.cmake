# The sources of the CUDA library, for any compiler. Found by folder: a new kernel is a new file.
file(GLOB CUDA_HOST_SOURCES CONFIGURE_DEPENDS native/backends/cuda/*.cc native/backends/cuda/runtime/*.cc
     native/backends/cuda/cublaslt/*.cc)
file(GLOB CUDA_KERNEL_SOURCES CONFIGURE_DEPENDS native/backends/cuda/*/*.cu)
# compile options of both sides of the C ABI
file(GLOB CUDA_SCRATCH_SOURCES CONFIGURE_DEPENDS native/backends/cuda/scratch/*.cc) # the addon has them too
set(CUDA_SHARED_SOURCES ${CUDA_SCRATCH_SOURCES} native/core/memory_arena.cc native/core/separate_memories.cc
    native/core/device_memory.cc
    native/core/status.cc native/core/op_registry.cc native/core/validation.cc native/core/index_check.cc
    native/core/row_layout.cc native/core/shared_memory.cc
    native/ops/matmul.cc native/ops/linear.cc native/ops/attention.cc native/ops/visibility.cc native/ops/attention_row_sums.cc
    native/ops/merge_attention.cc native/ops/cross_entropy.cc
    native/backends/cpu/philox_normal.cc native/platforms/linux/threads.cc)
