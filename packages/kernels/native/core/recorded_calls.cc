#include "core/recorded_calls.h"

#include <cstring>

#include "core/backend.h"

namespace mtl {
namespace {

struct Recorded {
  DeviceKind device = DeviceKind::kCpu;
  RecordedCalls* calls = nullptr;  // null: calls are executed
};
thread_local Recorded recorded;

}  // namespace

void RecordedCalls::add(const OpCall& call, KernelFunction kernel) {
  calls_.push_back({kernel, call, tensors_.size(), attributes_.size(), nullptr, 0, 0});
  tensors_.insert(tensors_.end(), call.tensors, call.tensors + call.num_tensors);
  attributes_.insert(attributes_.end(), call.attributes, call.attributes + call.num_attributes);
}

void RecordedCalls::add_fill(void* data, uint8_t value, size_t bytes) {
  calls_.push_back({nullptr, OpCall{}, 0, 0, data, bytes, value});
}

Status RecordedCalls::run() const {
  for (const Call& each : calls_) {
    if (each.kernel == nullptr) {
      std::memset(each.data, each.value, each.bytes);
      continue;
    }
    OpCall call = each.call;
    call.tensors = tensors_.data() + each.first_tensor;
    call.attributes = attributes_.data() + each.first_attribute;
    MTL_RETURN_IF_ERROR(each.kernel(call));
  }
  return ok_status();
}

RecordedCalls* recorded_calls(const Backend& backend) {
  return recorded.calls != nullptr && recorded.device == backend.kind ? recorded.calls : nullptr;
}

void record_calls(const Backend& backend, RecordedCalls* calls) { recorded = {backend.kind, calls}; }

}  // namespace mtl
