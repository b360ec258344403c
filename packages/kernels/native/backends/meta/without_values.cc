#include "backends/meta/without_values.h"

namespace mtl {
namespace {

Status fill(void*, uint8_t, size_t) { return ok_status(); }
Status discard_copy(void*, const void*, size_t) { return ok_status(); }

Status refuse_read_of_meta(void*, const void*, size_t) { return refuse_read("meta"); }

Status synchronize() { return ok_status(); }

}  // namespace

Status refuse_read(const char* device) {
  return error_status("MTL_META", "a tensor on device %s has no values to read", device);
}

Backend backend_without_values(const CountingDevice& device) {
  Backend backend = {};
  backend.abi_version = kBackendAbiVersion;
  backend.kind = device.kind;
  backend.name = device.name;
  backend.allocate = device.allocate;
  backend.release = device.release;
  backend.fill = fill;
  backend.copy_from_host = discard_copy;
  backend.copy_to_host = refuse_read_of_meta;
  backend.copy_within = discard_copy;
  backend.memory_statistics = device.memory_statistics;
  backend.reset_peak_memory = device.reset_peak_memory;
  backend.trim_memory = device.trim_memory;
  backend.limit_memory = device.limit_memory;
  backend.synchronize = synchronize;
  backend.find_kernel = device.find_kernel;
  return backend;
}

}  // namespace mtl
