// A call of an operation: its tensors (first outputs, then inputs, in the order of the schema) and its
// attributes.
#pragma once

#include "core/status.h"
#include "core/tensor_view.h"

namespace mtl {

struct OpCall {
  const char* op = "";
  const TensorView* tensors = nullptr;
  int num_tensors = 0;
  const double* attributes = nullptr;
  int num_attributes = 0;
  void* stream = nullptr;  // null on backends without streams

  const TensorView& tensor(int index) const { return tensors[index]; }
  bool has(int index) const { return tensors[index].present(); }
  template <typename T>
  T* data(int index) const {
    return static_cast<T*>(tensors[index].data);
  }
  double attribute(int index) const { return attributes[index]; }
  int64_t integer(int index) const { return static_cast<int64_t>(attributes[index]); }
  bool flag(int index) const { return attributes[index] != 0.0; }
};

using KernelFunction = Status (*)(const OpCall&);

}  // namespace mtl
