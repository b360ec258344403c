// The registry of operations: ops/<op>.cc registers an op's contract, and backends/<backend>/<op>.cc its
// kernels. There is no list and no switch to extend: a new op consists of new files only.
#pragma once

#include <vector>

#include "core/op_call.h"
#include "core/scratch_blocks.h"

namespace mtl {

constexpr int kMaxTensors = 16;
constexpr int kMaxAttributes = 16;

struct OpSchema {
  const char* name = nullptr;
  int num_outputs = 0;                          // the first `num_outputs` tensors are written
  const char* tensors[kMaxTensors] = {};        // names as callers pass them; a trailing '?' marks an optional one
  const char* attributes[kMaxAttributes] = {};  // names, different from the tensors' names
  Status (*validate)(const OpCall&) = nullptr;  // shapes and dtypes; devices and count are checked before
  double (*flops)(const OpCall&) = nullptr;     // floating-point operations, 2 per multiply-add; null: not counted
  uint32_t strided = 0;                         // bit i: tensor i may be a strided view
};

int num_tensors(const OpSchema& schema);
int num_attributes(const OpSchema& schema);

// Returns the bits in OpSchema::strided for the given tensors.
template <typename... Tensors>
constexpr uint32_t strided_tensors(Tensors... tensors) {
  return ((uint32_t{1} << tensors) | ...);
}

struct InstructionSet;  // backends/cpu/instruction_sets.h

struct CpuKernel {
  const InstructionSet* set = nullptr;  // null: the kernel serves every instruction set
  KernelFunction run = nullptr;
  ScratchFunction scratch = nullptr;  // null: no scratch memory
};

struct OpEntry {
  OpSchema schema;
  std::vector<CpuKernel> cpu;  // in no order; one for an instruction set at most
  KernelFunction reference = nullptr;
  CudaScratchFunction cuda_scratch = nullptr;  // null: no scratch memory
};

int num_ops();
const OpEntry* op_at(int index);            // null when out of range
const OpEntry* find_op(const char* name);   // null when unknown

struct OpRegistration {
  explicit OpRegistration(const OpSchema& schema);
};
struct CpuKernelRegistration {
  CpuKernelRegistration(const char* op, const InstructionSet* set, KernelFunction kernel,
                        ScratchFunction scratch = nullptr);
};
struct CudaScratchRegistration {
  CudaScratchRegistration(const char* op, CudaScratchFunction scratch);
};
struct ReferenceKernelRegistration {
  ReferenceKernelRegistration(const char* op, KernelFunction kernel);
};

}  // namespace mtl

#define MTL_CONCATENATE_(a, b) a##b
#define MTL_CONCATENATE(a, b) MTL_CONCATENATE_(a, b)
#define MTL_STRINGIFY_(a) #a
#define MTL_STRINGIFY(a) MTL_STRINGIFY_(a)
#define MTL_REGISTER_OP(...) \
  static const ::mtl::OpRegistration MTL_CONCATENATE(op_registration_, __LINE__)(__VA_ARGS__)
#define MTL_REGISTER_CUDA_SCRATCH(op, scratch) \
  static const ::mtl::CudaScratchRegistration MTL_CONCATENATE(cuda_scratch_registration_, __LINE__)(op, scratch)
#define MTL_REGISTER_REFERENCE(op, kernel) \
  static const ::mtl::ReferenceKernelRegistration MTL_CONCATENATE(reference_registration_, __LINE__)(op, kernel)
