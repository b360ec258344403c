// Tests opening a CUDA library that is missing, that is another library, or that has another version.
#include "backends/cuda/loader/cuda_loader.h"

#include "backends/cuda/launch.h"
#include "tests/cuda_for_tests.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

__global__ void named_in_a_launch(int* value) { *value = 1; }
__global__ void named_nowhere(int* value) { *value = 2; }

// A kernel that is loaded at its first launch may wait for the device, on which a kernel of NCCL may wait for
// this process.
MTL_TEST(cuda_kernels_are_loaded_when_the_device_is_opened) {
  if (!open_cuda_for_tests() || !is_linked_emulation_under_test()) return;
  int value = 0;
  EXPECT(MTL_LAUNCH(named_in_a_launch, (cuda::Launch{1, 1}), &value) == cudaSuccess && value == 1);
  const cuda::ListedKernel listed = {nullptr, nullptr};
  EXPECT(cuda::launch("named_nowhere", listed, named_nowhere, cuda::Launch{1, 1}, &value) == cudaErrorInvalidDeviceFunction);
  EXPECT(value == 1);
}

MTL_TEST(a_cuda_library_that_does_not_fit_is_refused) {
  const CudaLibrary* library = nullptr;
  EXPECT(failed_with(load_cuda_library("/nowhere/libmtl_cuda.so", &library), "MTL_CUDA_LIBRARY"));
  EXPECT(failed_with(load_cuda_library("libm.so.6", &library), "MTL_CUDA_LIBRARY"));
  EXPECT(failed_with(load_cuda_library(MTL_CUDA_OF_ANOTHER_VERSION, &library), "MTL_CUDA_ABI"));
  EXPECT(library == nullptr);
}

MTL_TEST(the_device_api_orders_streams_by_events) {
  if (!open_cuda_for_tests()) return;
  const MtlDeviceApi* const api = cuda_device_api();
  void *const compute = api->stream(MTL_STREAM_COMPUTE), *const communication = api->stream(MTL_STREAM_COMMUNICATION);
  EXPECT(compute != nullptr && communication != nullptr && compute != communication);
  EXPECT(api->stream(3) == nullptr && api->stream(-1) == nullptr);
  void* event = nullptr;
  EXPECT(api->create_event(&event) == 0);
  EXPECT(api->record_event(event, compute) == 0 && api->wait_event(communication, event) == 0);
  EXPECT(succeeded(cuda_backend()->synchronize()));
  EXPECT(api->query_event(event) == 1);
  EXPECT(api->destroy_event(event) == 0);
  EXPECT(api->query_event(nullptr) == -1 && api->last_error()[0] != '\0');
  void* pinned = nullptr;
  EXPECT(api->allocate_pinned(1000, &pinned) == 0);
  static_cast<char*>(pinned)[999] = 1;
  api->release_pinned(pinned);
}

MTL_TEST(device_memory_is_counted_and_limited) {
  if (!open_cuda_for_tests()) return;
  const Backend* const backend = cuda_backend();
  const uint64_t before = backend->memory_statistics().bytes_in_use;
  const int64_t shape[] = {1000};
  {
    const OwnedTensor tensor(DeviceKind::kCuda, DType::kFloat32, shape, 1);
    EXPECT(backend->memory_statistics().bytes_in_use == before + 4096);
    backend->limit_memory(before + 5000);
    TensorHandle handle = 0;
    EXPECT(failed_with(create_tensor(DeviceKind::kCuda, DType::kFloat32, shape, 1, &handle), "MTL_OUT_OF_MEMORY"));
    backend->limit_memory(0);
  }
  EXPECT(backend->memory_statistics().bytes_in_use == before);
  backend->trim_memory();
}

}  // namespace
}  // namespace mtl::tests
