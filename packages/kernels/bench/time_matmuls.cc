// Times matmuls with our kernel and with oneDNN, for bench/matmuls.mjs, which writes one shape per line:
//   batch rows columns inner transpose_left transpose_right accumulate float32|bfloat16
// Prints how many seconds a call of each kernel takes. Operands have the same layout and memory as in
// training. Consecutive calls use different operands, which together exceed the caches.
//   time_matmuls [best|NAME] [all|library]   the kernels' instruction set; `library` times only oneDNN
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/threads.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

constexpr double kSeconds = 0.05;  // of calls of one kernel
constexpr int64_t kBytes = int64_t{64} << 20;  // of the operands of consecutive calls

struct Shape {
  int64_t batch, rows, columns, inner;
  bool transpose_left, transpose_right, accumulate;
  DType dtype;

  DType output_dtype() const { return accumulate ? DType::kFloat32 : dtype; }
  int64_t bytes() const {
    return batch * ((rows * inner + inner * columns) * static_cast<int64_t>(size_of(dtype)) +
                    rows * columns * static_cast<int64_t>(size_of(output_dtype())));
  }
};

// Allocated as tensors are.
class Matrix {
 public:
  Matrix(int64_t elements, DType dtype) : memory_(static_cast<size_t>(elements) * size_of(dtype)) {
    for (int64_t i = 0; i < elements; ++i) {
      const float value = 0.01f * static_cast<float>(i * 7919 % 193 - 96);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (dtype == DType::kFloat32) {
        static_cast<uint32_t*>(data())[i] = bits;
      } else {
        static_cast<uint16_t*>(data())[i] = static_cast<uint16_t>(bits >> 16);
      }
    }
  }
  void* data() { return memory_.data; }

 private:
  Scratch memory_;
};

TensorView matrix_view(Matrix* matrix, DType dtype, int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  TensorView view;
  view.data = matrix->data();
  view.dtype = dtype;
  view.rank = batch == 1 ? 2 : 3;
  view.shape[0] = batch;
  view.shape[view.rank - 2] = transposed ? columns : rows;
  view.shape[view.rank - 1] = transposed ? rows : columns;
  return view;
}

// A matmul with separate operands.
class Call {
 public:
  explicit Call(const Shape& s)
      : left_(s.batch * s.rows * s.inner, s.dtype),
        right_(s.batch * s.inner * s.columns, s.dtype),
        output_(s.batch * s.rows * s.columns, s.output_dtype()),
        tensors_{matrix_view(&output_, s.output_dtype(), s.batch, s.rows, s.columns, false),
                 matrix_view(&left_, s.dtype, s.batch, s.rows, s.inner, s.transpose_left),
                 matrix_view(&right_, s.dtype, s.batch, s.inner, s.columns, s.transpose_right)},
        attributes_{double(s.transpose_left), double(s.transpose_right), double(s.accumulate)} {}

  OpCall op_call() const {
    OpCall call;
    call.op = "matmul";
    call.tensors = tensors_;
    call.num_tensors = 4;
    call.attributes = attributes_;
    call.num_attributes = 3;
    return call;
  }

 private:
  Matrix left_, right_, output_;
  TensorView tensors_[4];
  double attributes_[3];
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the seconds that a call takes, or a negative value after an error.
template <typename Body>
double time(const std::vector<std::unique_ptr<Call>>& calls, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  int64_t count = 0;
  do {
    for (const auto& call : calls) {
      const Status status = body(call->op_call());
      if (!status.ok()) {
        std::cerr << status.message << std::endl;
        return -1;
      }
      ++count;
    }
  } while (seconds_since(start) < kSeconds);
  return seconds_since(start) / static_cast<double>(count);
}

int serve(bool with_ours) {
  set_matmul_library(MatmulLibrary::kOwn);
  Shape shape;
  std::string dtype, before, line;
  std::vector<std::unique_ptr<Call>> calls;
  while (std::cin >> shape.batch >> shape.rows >> shape.columns >> shape.inner >> shape.transpose_left >> shape.transpose_right >>
         shape.accumulate >> dtype) {
    shape.dtype = dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32;
    calls.clear();
    for (int64_t bytes = 0; bytes < kBytes; bytes += shape.bytes()) calls.push_back(std::make_unique<Call>(shape));
    const KernelFunction kernel = cpu_backend()->find_kernel("matmul");
    const auto library = [](const OpCall& call) { return onednn_matmul(matmul_problem_of(call)); };
    discard(library(calls.front()->op_call()));
    if (with_ours) {
      discard(kernel(calls.front()->op_call()));
      std::cout << time(calls, kernel) << ' ';
    }
    std::cout << time(calls, library) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace mtl

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) != "best") {
    const mtl::Status status = mtl::set_instruction_set(arguments[1]);
    if (!status.ok()) {
      std::cerr << status.message << std::endl;
      return 2;
    }
  }
  const char* const instructions = mtl::active_instruction_set().name;
  const bool with_ours = count < 3 || std::string(arguments[2]) != "library";
  std::cout << (with_ours ? std::string("kernels of ") + instructions + ", " : "") << "oneDNN " << mtl::onednn_version()
            << ", " << mtl::num_threads() << " threads" << std::endl;
  return mtl::serve(with_ours);
}
