// Runs an operation as a sequence of component operations, on devices that have no fused kernel for it.
#pragma once

#include <initializer_list>

#include "core/op_call.h"

namespace mtl {

// Returns a device's kernel for an op, or null if there is none.
using FindKernel = KernelFunction (*)(const char* op);

struct OpPart {
  const char* op;
  std::initializer_list<int> tensors;  // positions in the tensors of the whole call; kLeftOut: an absent tensor
  std::initializer_list<double> attributes;
};
constexpr int kLeftOut = -1;

inline Status run_part(const OpCall& call, FindKernel find, const OpPart& part) {
  constexpr size_t kMostTensors = 8;
  if (part.tensors.size() > kMostTensors) {
    return error_status("MTL_ARGUMENT", "%s: its part %s has %zu tensors, more than %zu", call.op, part.op,
                        part.tensors.size(), kMostTensors);
  }
  TensorView views[kMostTensors];
  int count = 0;
  for (const int position : part.tensors) {
    if (position >= call.num_tensors) {
      return error_status("MTL_ARGUMENT", "%s: its part %s asks for tensor %d of %d", call.op, part.op, position,
                          call.num_tensors);
    }
    if (position != kLeftOut) views[count] = call.tensor(position);
    ++count;
  }
  const KernelFunction kernel = find(part.op);
  if (kernel == nullptr) {
    return error_status("MTL_UNSUPPORTED", "%s: this device has no kernel of its part %s", call.op, part.op);
  }
  return kernel({part.op, views, count, part.attributes.begin(), static_cast<int>(part.attributes.size()), call.stream});
}

}  // namespace mtl
