// Operations as sequences of other operations: for devices without a fused kernel.
#pragma once

#include <initializer_list>

#include "core/op_call.h"

namespace mtl {

// A device's kernel of an op.
using FindKernel = KernelFunction (*)(const char* op);

struct OpPart {
  const char* op;
  std::initializer_list<int> tensors;  // positions in the whole call; kLeftOut: none
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
