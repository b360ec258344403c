#include "core/backend.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/loader/cuda_loader.h"
#include "backends/meta/meta_backend.h"

namespace mtl {

const Backend* backend_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return cpu_backend();
    case DeviceKind::kReference:
      return reference_backend();
    case DeviceKind::kCuda:
      return cuda_backend();
    case DeviceKind::kMeta:
      return meta_backend();
    case DeviceKind::kMetaCuda:
      return meta_cuda_backend();
  }
  return nullptr;
}

}  // namespace mtl
