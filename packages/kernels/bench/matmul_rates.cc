// Compares the matmuls of a training step with oneDNN's best: each shape is computed alternately by
// onednn_matmul and by the library alone, with every operand in the library's preferred layout (which no
// training step has).
//   matmul_rates [hidden] [rows of a micro-batch] [vocabulary] [layers]
// Prints milliseconds (the fastest of nine) and their ratio, and the sums over a step. Float32.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backends/cpu/onednn.h"
#include "backends/cpu/onednn_api.h"

namespace mtl {
namespace {

constexpr int kRuns = 9;
constexpr int64_t kLogitsBytes = int64_t{128} << 20;  // of a chunk of the vocabulary's logits

struct Shape {
  const char* name;
  int64_t rows, columns, inner;
  bool transpose_left, transpose_right, accumulate;
  int64_t calls;
};

// The three matmuls of a linear layer from `inputs` to `outputs` features.
void add_linear(std::vector<Shape>* shapes, const char* const names[3], int64_t rows, int64_t inputs, int64_t outputs,
                int64_t calls) {
  shapes->push_back({names[0], rows, outputs, inputs, false, true, false, calls});
  shapes->push_back({names[1], rows, inputs, outputs, false, false, false, calls});
  shapes->push_back({names[2], outputs, inputs, rows, true, false, true, calls});
}

class Matrix {
 public:
  explicit Matrix(int64_t elements) : values_(static_cast<size_t>(elements)) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = 0.01f * static_cast<float>(i % 97);
  }
  float* data() { return values_.data(); }

 private:
  std::vector<float> values_;
};

// The library's matmul of operands in its own layouts.
class BestMatmul {
 public:
  Status create(const Shape& shape) {
    MTL_DNNL("create its CPU engine", dnnl_engine_create(&engine_, dnnl_cpu, 0));
    MTL_DNNL("create its stream", dnnl_stream_create(&stream_, engine_, dnnl_stream_in_order));
    MatmulDescriptors open;
    MTL_RETURN_IF_ERROR(open.left.leave_layout_open({{shape.rows, shape.inner}, {}, 2}, dnnl_f32));
    MTL_RETURN_IF_ERROR(open.right.leave_layout_open({{shape.inner, shape.columns}, {}, 2}, dnnl_f32));
    MTL_RETURN_IF_ERROR(open.output.leave_layout_open({{shape.rows, shape.columns}, {}, 2}, dnnl_f32));
    dnnl_primitive_desc_t description;
    MTL_RETURN_IF_ERROR(describe_matmul(engine_, open, nullptr, &description));
    MTL_DNNL("create a matmul", dnnl_primitive_create(&matmul_, description));
    const struct { int argument; dnnl_query_t layout; } operands[] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                                                                      {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                                                                      {DNNL_ARG_DST, dnnl_query_dst_md}};
    for (int i = 0; i < 3; ++i) {
      const MatrixDescriptor::Handle layout = layout_in(description, operands[i].layout);
      matrices_.emplace_back(static_cast<int64_t>(dnnl_memory_desc_get_size(layout) / sizeof(float)));
      arguments_[i].arg = operands[i].argument;
      MTL_DNNL("create a memory object",
               dnnl_memory_create(&arguments_[i].memory, layout, engine_, matrices_.back().data()));
    }
    dnnl_primitive_desc_destroy(description);
    return ok_status();
  }
  ~BestMatmul() {
    for (const dnnl_exec_arg_t& argument : arguments_) dnnl_memory_destroy(argument.memory);
    dnnl_primitive_destroy(matmul_);
    dnnl_stream_destroy(stream_);
    dnnl_engine_destroy(engine_);
  }
  Status run() {
    MTL_DNNL("multiply", dnnl_primitive_execute(matmul_, stream_, 3, arguments_));
    MTL_DNNL("finish", dnnl_stream_wait(stream_));
    return ok_status();
  }

 private:
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  dnnl_primitive_t matmul_ = nullptr;
  std::vector<Matrix> matrices_;
  dnnl_exec_arg_t arguments_[3] = {};
};

template <typename Body>
Status fastest(double* milliseconds, Body body) {
  const auto start = std::chrono::steady_clock::now();
  MTL_RETURN_IF_ERROR(body());
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  *milliseconds = *milliseconds == 0 ? taken.count() : std::min(*milliseconds, taken.count());
  return ok_status();
}

Status measure(const Shape& shape, double* ours, double* best) {
  Matrix left(shape.rows * shape.inner), right(shape.inner * shape.columns), output(shape.rows * shape.columns);
  MatmulProblem problem{};
  problem.output = output.data();
  problem.left = left.data();
  problem.right = right.data();
  problem.batch = 1;
  problem.rows = shape.rows;
  problem.columns = shape.columns;
  problem.inner = shape.inner;
  problem.transpose_left = shape.transpose_left;
  problem.transpose_right = shape.transpose_right;
  problem.accumulate = shape.accumulate;
  problem = problem.contiguous();  // dtypes: float32
  BestMatmul library;
  MTL_RETURN_IF_ERROR(library.create(shape));
  for (int run = 0; run < kRuns; ++run) {
    MTL_RETURN_IF_ERROR(fastest(ours, [&] { return onednn_matmul(problem); }));
    MTL_RETURN_IF_ERROR(fastest(best, [&] { return library.run(); }));
  }
  return ok_status();
}

int run(int64_t hidden, int64_t rows, int64_t vocabulary, int64_t layers) {
  const int64_t chunk = std::min(rows, std::max<int64_t>(1, kLogitsBytes / 4 / vocabulary));
  std::vector<Shape> shapes;
  const char* const names[][3] = {
      {"query, key, value forward", "query, key, value input gradient", "query, key, value weight gradient"},
      {"projection forward", "projection input gradient", "projection weight gradient"},
      {"feed-forward 1 forward", "feed-forward 1 input gradient", "feed-forward 1 weight gradient"},
      {"feed-forward 2 forward", "feed-forward 2 input gradient", "feed-forward 2 weight gradient"},
      {"logits forward", "logits input gradient", "logits weight gradient"}};
  add_linear(&shapes, names[0], rows, hidden, 3 * hidden, layers);
  add_linear(&shapes, names[1], rows, hidden, hidden, layers);
  add_linear(&shapes, names[2], rows, hidden, 4 * hidden, layers);
  add_linear(&shapes, names[3], rows, 4 * hidden, hidden, layers);
  add_linear(&shapes, names[4], chunk, hidden, vocabulary, (rows + chunk - 1) / chunk);
  double our_sum = 0, best_sum = 0;
  std::printf("%-36s %10s %10s %6s\n", "ms a call", "here", "best", "ratio");
  for (const Shape& shape : shapes) {
    double ours = 0, best = 0;
    const Status status = measure(shape, &ours, &best);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", shape.name, status.message);
      return 1;
    }
    std::printf("%-36s %10.2f %10.2f %6.3f\n", shape.name, ours, best, ours / best);
    std::fflush(stdout);
    our_sum += ours * static_cast<double>(shape.calls);
    best_sum += best * static_cast<double>(shape.calls);
  }
  std::printf("%-36s %10.0f %10.0f %6.3f\n", "a step's", our_sum, best_sum, our_sum / best_sum);
  return 0;
}

}  // namespace
}  // namespace mtl

int main(int count, char** arguments) {
  const auto number = [&](int index, int64_t otherwise) {
    return index < count ? std::atoll(arguments[index]) : otherwise;
  };
  return mtl::run(number(1, 768), number(2, 2048), number(3, 50304), number(4, 12));
}
