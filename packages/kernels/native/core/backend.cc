#include "core/backend.h"

#include "backends/cpu/cpu_backend.h"

namespace mtl {

const Backend* backend_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return cpu_backend();
    case DeviceKind::kReference:
      return reference_backend();
    case DeviceKind::kCuda:
      return nullptr;  // arrives with the CUDA library
  }
  return nullptr;
}

}  // namespace mtl
