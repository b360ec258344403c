#include "ops/grouped_matmul.h"

#include <string.h>

#include "backends/cpu/simd/matmul_lanes.h"
#include "core/index_check.h"

namespace mtl {
namespace {

// Limits for the size of a task. A task is a block of rows and columns of one group's matmul: one thread
// packs the task's operands and multiplies them. The packed operands and the sums of the largest task fit
// into the cache.
constexpr int64_t kMostTaskRows = 512, kMostTaskColumns = 512;
constexpr int64_t kFewestTaskRows = 128, kFewestTaskColumns = 64;
constexpr int64_t kTasksOfThread = 8;  // wanted per thread, so that threads end at about the same time

// Returns the blocking of a task's matmul: one block of steps at a time is packed, for all of the task's
// columns.
template <typename Lanes>
Blocks blocks_of_task(const MatmulProblem& p) {
  Blocks b = {};
  b.row_panels = divide_up(p.rows, kLanes);
  b.column_panels = divide_up(p.columns, kLanes);
  b.steps = num_steps<Lanes>(p.inner);
  b.threads = 1;
  b.block_steps = smaller(b.steps, round_up(divide_up(b.steps, divide_up(b.steps, kStepsOfBlock)), kLanes));
  b.part_steps = b.block_steps;
  b.chunk_panels = b.column_panels;
  b.panel_length = b.part_steps + 1;
  b.row_blocks = divide_up(b.row_panels, Lanes::kRowsOfBlock / kLanes);
  b.block_panels = divide_up(b.row_panels, b.row_blocks);
  b.column_parts = 1;
  b.sums = p.output_dtype == DType::kFloat32 ? Sums::kInOutput
                                             : b.steps > b.block_steps ? Sums::kOfMatrix : Sums::kNowhere;
  return b;
}

// The matmuls of all groups. Each group has its own number of rows, columns and inner dimension.
struct GroupedProblem {
  const int32_t* offsets;
  int64_t groups, most_rows, columns, most_inner;
  DType input_dtype, output_dtype;
};

// Returns how many vectors of scratch memory a task needs at most.
template <typename Lanes>
int64_t vectors_of_task(const GroupedProblem& all) {
  MatmulProblem most = {};
  most.rows = larger(1, smaller(all.most_rows, kMostTaskRows));
  most.columns = larger(1, smaller(all.columns, kMostTaskColumns));
  most.output_dtype = all.output_dtype;
  most.inner = larger(1, all.most_inner);
  Blocks b = blocks_of_task<Lanes>(most);
  // if a group's inner dimension is shorter, its blocks may have more steps
  b.block_steps = smaller(round_up(b.steps, kLanes), kStepsOfBlock);
  b.panel_length = b.block_steps + 1;
  b.block_panels = smaller(b.row_panels, Lanes::kRowsOfBlock / kLanes);
  return b.vectors();
}

// How many rows and columns a task has.
struct TaskSize {
  int64_t rows, columns;

  // Returns how many tasks a matmul has.
  int64_t count(int64_t of_rows, int64_t of_columns) const { return divide_up(of_rows, rows) * divide_up(of_columns, columns); }
};

// Returns the largest task size that gives enough tasks for all threads. `rows_of(group)` returns how many
// rows a group's matmul has.
template <typename RowsOf>
TaskSize task_size_of(const GroupedProblem& all, int threads, const RowsOf& rows_of) {
  TaskSize size = {kMostTaskRows, kMostTaskColumns};
  while (threads > 1) {
    int64_t tasks = 0;
    for (int64_t group = 0; group < all.groups; ++group) tasks += size.count(rows_of(group), all.columns);
    if (tasks >= kTasksOfThread * threads) break;
    if (size.columns > kFewestTaskColumns) {
      size.columns /= 2;
    } else if (size.rows > kFewestTaskRows) {
      size.rows /= 2;
    } else {
      break;
    }
  }
  return size;
}

const void* advanced(const void* data, DType dtype, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}

// Returns the part of a matmul that begins at the given row and column and has the size of a task.
MatmulProblem part_of(MatmulProblem p, int64_t row, int64_t column, const TaskSize& size) {
  p.left = advanced(p.left, p.input_dtype, p.transpose_left ? row : row * p.left_row_length);
  p.right = advanced(p.right, p.input_dtype, p.transpose_right ? column * p.right_row_length : column);
  p.output = const_cast<void*>(advanced(p.output, p.output_dtype, row * p.output_row_length + column));
  p.rows = smaller(size.rows, p.rows - row);
  p.columns = smaller(size.columns, p.columns - column);
  return p;
}

int threads_of(double products) { return products < static_cast<double>(kParallelProducts) ? 1 : num_threads(); }

int threads_of(const GroupedSizes& sizes) {
  return threads_of(static_cast<double>(sizes.rows) * static_cast<double>(sizes.outputs) * static_cast<double>(sizes.inputs));
}

// Computes the matmuls of all groups. `product_of(group)` describes a group's matmul, with all its columns.
// No group may have an empty inner dimension.
template <typename Lanes, typename ProductOf>
Status multiply_groups(const GroupedProblem& all, int threads, const ProductOf& product_of) {
  const int64_t vectors = vectors_of_task<Lanes>(all);
  const Scratch scratch(static_cast<uint64_t>(threads * vectors) * sizeof(VUint));
  VUint* const memory = static_cast<VUint*>(scratch.data);
  if (memory == nullptr) return error_status("MTL_OUT_OF_MEMORY", "grouped matmul: no memory for packed operands");
  const TaskSize size = task_size_of(all, threads, [&](int64_t group) { return product_of(group).rows; });
  TaskCounter counter;
  TaskCounter* const next = &counter;
  on_threads(threads, [&](int thread) {
    int64_t group = 0, first_task = 0;  // first_task: the group's first
    MatmulProblem product = all.groups > 0 ? product_of(0) : MatmulProblem{};
    for (int64_t task = next->take();; task = next->take()) {
      for (; group < all.groups; product = product_of(group)) {
        const int64_t tasks = size.count(product.rows, product.columns);
        if (task < first_task + tasks) break;
        first_task += tasks;
        if (++group == all.groups) return;
      }
      if (group == all.groups) return;
      const int64_t parts = divide_up(product.columns, size.columns), at = task - first_task;
      const MatmulProblem part = part_of(product, at / parts * size.rows, at % parts * size.columns, size);
      const Blocks blocks = blocks_of_task<Lanes>(part);
      Multiplication<Lanes>(part, blocks, 0, memory + thread * vectors).run();
    }
  });
  return ok_status();
}

GroupedProblem matmul_problem(const OpCall& call, const GroupedSizes& sizes) {
  const DType dtype = call.tensor(GroupedMatmul::kInput).dtype;
  return {call.data<int32_t>(GroupedMatmul::kOffsets), sizes.groups, sizes.rows, sizes.outputs, sizes.inputs, dtype, dtype};
}

GroupedProblem gradient_problem(const OpCall& call, const GroupedSizes& sizes) {
  return {call.data<int32_t>(GroupedWeightGradient::kOffsets), sizes.groups, sizes.outputs, sizes.inputs, sizes.rows,
          call.tensor(GroupedWeightGradient::kInput).dtype, DType::kFloat32};
}

// Fills memory with zeros, using several threads if the memory is large enough.
void clear(void* data, int64_t bytes) {
  constexpr int64_t kPart = int64_t{1} << 16;
  for_each(divide_up(bytes, kPart), bytes / 4, [&](int64_t part) {
    memset(static_cast<char*>(data) + part * kPart, 0, static_cast<size_t>(smaller(kPart, bytes - part * kPart)));
  });
}

Status expect_not_float64(const OpCall& call, int input) {
  if (call.tensor(input).dtype != DType::kFloat64) return ok_status();
  return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
}

Status grouped_matmul(const OpCall& call) {
  using Op = GroupedMatmul;
  const GroupedSizes sizes = grouped_matmul_sizes(call);
  const GroupedProblem all = matmul_problem(call, sizes);
  MTL_RETURN_IF_ERROR(expect_not_float64(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, sizes.rows));
  const int64_t used = sizes.inputs == 0 ? 0 : all.offsets[sizes.groups],
                row_bytes = sizes.outputs * static_cast<int64_t>(size_of(all.output_dtype));
  clear(static_cast<char*>(call.tensor(Op::kOutput).data) + used * row_bytes, (sizes.rows - used) * row_bytes);
  const auto product_of = [&](int64_t group) {
    MatmulProblem p = {};
    const int64_t first = all.offsets[group];
    p.output = static_cast<char*>(call.tensor(Op::kOutput).data) + first * row_bytes;
    p.left = advanced(call.tensor(Op::kInput).data, all.input_dtype, first * sizes.inputs);
    p.right = advanced(call.tensor(Op::kWeights).data, all.input_dtype, group * sizes.outputs * sizes.inputs);
    p.batch = 1;
    p.rows = used == 0 ? 0 : all.offsets[group + 1] - first;
    p.columns = sizes.outputs;
    p.inner = sizes.inputs;
    p.transpose_right = call.flag(Op::kTransposeWeights);
    p.input_dtype = p.bias_dtype = all.input_dtype;
    p.output_dtype = all.output_dtype;
    return p.contiguous();
  };
  return for_lanes(all.input_dtype,
                   [&](auto* lanes) { return multiply_groups<__typeof__(*lanes)>(all, threads_of(sizes), product_of); });
}

Status grouped_weight_gradient(const OpCall& call) {
  using Op = GroupedWeightGradient;
  const GroupedSizes sizes = grouped_weight_gradient_sizes(call);
  const GroupedProblem all = gradient_problem(call, sizes);
  MTL_RETURN_IF_ERROR(expect_not_float64(call, Op::kInput));
  MTL_RETURN_IF_ERROR(expect_offsets(call, Op::kOffsets, sizes.rows));
  float* const gradient = call.data<float>(Op::kWeightGradient);
  const int64_t size = sizes.outputs * sizes.inputs;
  for (int64_t group = 0; !call.flag(Op::kAccumulate) && group < sizes.groups; ++group) {
    if (all.offsets[group] == all.offsets[group + 1]) {
      clear(gradient + group * size, size * static_cast<int64_t>(sizeof(float)));
    }
  }
  const auto product_of = [&](int64_t group) {
    MatmulProblem p = {};
    const int64_t first = all.offsets[group], inner = all.offsets[group + 1] - first;
    p.output = gradient + group * size;
    p.left = advanced(call.tensor(Op::kOutputGradient).data, all.input_dtype, first * sizes.outputs);
    p.right = advanced(call.tensor(Op::kInput).data, all.input_dtype, first * sizes.inputs);
    p.batch = 1;
    p.rows = inner == 0 ? 0 : sizes.outputs;
    p.columns = sizes.inputs;
    p.inner = inner;
    p.transpose_left = true;
    p.accumulate = call.flag(Op::kAccumulate);
    p.input_dtype = p.bias_dtype = all.input_dtype;
    p.output_dtype = DType::kFloat32;
    return p.contiguous();
  };
  return for_lanes(all.input_dtype,
                   [&](auto* lanes) { return multiply_groups<__typeof__(*lanes)>(all, threads_of(sizes), product_of); });
}

Status add_scratch(const GroupedProblem& all, const GroupedSizes& sizes, ScratchBlocks* blocks) {
  return for_lanes(all.input_dtype, [&](auto* lanes) {
    blocks->add(threads_of(sizes) * vectors_of_task<__typeof__(*lanes)>(all) * static_cast<int64_t>(sizeof(VUint)));
    return ok_status();
  });
}

Status matmul_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const GroupedSizes sizes = grouped_matmul_sizes(call);
  return add_scratch(matmul_problem(call, sizes), sizes, blocks);
}

Status gradient_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const GroupedSizes sizes = grouped_weight_gradient_sizes(call);
  return add_scratch(gradient_problem(call, sizes), sizes, blocks);
}

MTL_REGISTER_CPU("grouped_matmul", grouped_matmul, matmul_scratch);
MTL_REGISTER_CPU("grouped_weight_gradient", grouped_weight_gradient, gradient_scratch);

}  // namespace
}  // namespace mtl
