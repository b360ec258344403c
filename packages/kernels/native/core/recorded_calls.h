// Records calls of kernels and later runs them in order, for devices that otherwise run kernels at once.
#pragma once

#include <vector>

#include "core/op_call.h"

namespace mtl {

struct Backend;

class RecordedCalls {
 public:
  // Records a validated call, with a copy of its operands.
  void add(const OpCall& call, KernelFunction kernel);
  void add_fill(void* data, uint8_t value, size_t bytes);
  // Runs all recorded calls. Stops at the first error.
  Status run() const;

 private:
  struct Call {
    KernelFunction kernel;  // null: fills memory
    OpCall call;            // without operands, which are at the indices below
    size_t first_tensor, first_attribute;
    void* data;
    size_t bytes;
    uint8_t value;
  };
  std::vector<Call> calls_;
  std::vector<TensorView> tensors_;
  std::vector<double> attributes_;
};

// Returns the calls that the calling thread is recording for `backend`; null if it is not recording.
RecordedCalls* recorded_calls(const Backend& backend);
// Makes the calling thread record the calls of `backend` in `calls`, until this function is called again. A
// null for `calls` ends the recording.
void record_calls(const Backend& backend, RecordedCalls* calls);

}  // namespace mtl
