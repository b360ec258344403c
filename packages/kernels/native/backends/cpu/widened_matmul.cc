#include "backends/cpu/widened_matmul.h"

#include <algorithm>

#include "backends/cpu/cpu_backend.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

// A matrix that is not larger is converted whole; larger ones in blocks of kSide rows and columns.
constexpr int64_t kSide = 2048;

// A range of each dimension.
struct Block {
  int64_t matrix, row, column, inner;       // where it begins
  int64_t batch, rows, columns, num_inner;  // its sizes
};

// The sizes of all blocks but the last ones.
Block largest_block(const MatmulProblem& p) {
  const int64_t largest = p.batch * std::max({p.rows * p.inner, p.inner * p.columns, p.rows * p.columns});
  if (largest <= kSide * kSide) return {0, 0, 0, 0, p.batch, p.rows, p.columns, p.inner};
  return {0, 0, 0, 0, 1, std::min(p.rows, kSide), std::min(p.columns, kSide), std::min(p.inner, kSide)};
}

// Calls visit(block), over the inner dimension first: the blocks of one output follow one another.
template <typename Visit>
Status for_blocks(const MatmulProblem& p, Visit visit) {
  const Block size = largest_block(p);
  for (int64_t matrix = 0; matrix < p.batch; matrix += size.batch) {
    for (int64_t row = 0; row < p.rows; row += size.rows) {
      for (int64_t column = 0; column < p.columns; column += size.columns) {
        for (int64_t inner = 0; inner < p.inner; inner += size.num_inner) {
          MTL_RETURN_IF_ERROR(visit(Block{matrix, row, column, inner, size.batch, std::min(size.rows, p.rows - row),
                                          std::min(size.columns, p.columns - column),
                                          std::min(size.num_inner, p.inner - inner)}));
        }
      }
    }
  }
  return ok_status();
}

bool is_narrow(DType dtype) { return dtype != DType::kFloat32; }

// Bytes of the float32 copies of a block: left, right, output and bias.
struct CopyBytes {
  int64_t left, right, output, bias;
};

CopyBytes copy_bytes(const MatmulProblem& p) {
  const Block block = largest_block(p);
  constexpr int64_t kBytes = sizeof(float);
  return {block.batch * block.rows * block.num_inner * kBytes, block.batch * block.num_inner * block.columns * kBytes,
          is_narrow(p.output_dtype) ? block.batch * block.rows * block.columns * kBytes : 0,
          p.bias != nullptr && is_narrow(p.bias_dtype) ? block.columns * kBytes : 0};
}

// `num_rows` stored rows from `row`, and of each `num_columns` elements from `column`. The matrices of a
// batch follow one another, so that their rows are counted through.
TensorView stored_block(const void* data, DType dtype, int64_t row_length, int64_t row, int64_t num_rows,
                        int64_t column, int64_t num_columns) {
  TensorView view;
  const int64_t first = (row * row_length + column) * static_cast<int64_t>(size_of(dtype));
  view.data = static_cast<char*>(const_cast<void*>(data)) + first;
  view.dtype = dtype;
  view.rank = 2;
  view.shape[0] = num_rows;
  view.shape[1] = num_columns;
  view.is_strided = row_length != num_columns;
  view.strides[0] = row_length;
  view.strides[1] = 1;
  return view;
}

TensorView left_view(const MatmulProblem& p, const Block& b) {
  if (p.transpose_left) {
    return stored_block(p.left, p.input_dtype, p.left_row_length, b.matrix * p.inner + b.inner, b.batch * b.num_inner,
                        b.row, b.rows);
  }
  return stored_block(p.left, p.input_dtype, p.left_row_length, b.matrix * p.rows + b.row, b.batch * b.rows, b.inner,
                      b.num_inner);
}

TensorView right_view(const MatmulProblem& p, const Block& b) {
  if (p.transpose_right) {
    return stored_block(p.right, p.input_dtype, p.right_row_length, b.matrix * p.columns + b.column,
                        b.batch * b.columns, b.inner, b.num_inner);
  }
  return stored_block(p.right, p.input_dtype, p.right_row_length, b.matrix * p.inner + b.inner, b.batch * b.num_inner,
                      b.column, b.columns);
}

TensorView output_view(const MatmulProblem& p, const Block& b) {
  return stored_block(p.output, p.output_dtype, p.output_row_length, b.matrix * p.rows + b.row, b.batch * b.rows,
                      b.column, b.columns);
}

TensorView bias_view(const MatmulProblem& p, const Block& b) {
  return stored_block(p.bias, p.bias_dtype, p.columns, 0, 1, b.column, b.columns);
}

Status cast(const TensorView& output, const TensorView& input) {
  const TensorView tensors[] = {output, input};
  OpCall call;
  call.op = "cast";
  call.tensors = tensors;
  call.num_tensors = 2;
  return cpu_backend()->find_kernel("cast")(call);
}

TensorView float32_copy(const Scratch& scratch, const TensorView& of) {
  return stored_block(scratch.data, DType::kFloat32, of.dim(1), 0, of.dim(0), 0, of.dim(1));
}

// The matmul of a block in float32, without operands: of these only the presence of a bias is stated.
MatmulProblem problem_of_block(const MatmulProblem& p, const Block& block) {
  MatmulProblem problem = p;
  problem.batch = block.batch;
  problem.rows = block.rows;
  problem.columns = block.columns;
  problem.inner = block.num_inner;
  problem.input_dtype = problem.bias_dtype = problem.output_dtype = DType::kFloat32;
  problem.accumulate = p.accumulate || block.inner > 0;
  if (block.inner > 0) problem.bias = nullptr;
  problem = problem.contiguous();
  if (!is_narrow(p.output_dtype)) problem.output_row_length = p.output_row_length;  // written in place
  return problem;
}

}  // namespace

Status widened_matmul(const MatmulProblem& p) {
  const CopyBytes bytes = copy_bytes(p);
  const Scratch left(static_cast<size_t>(bytes.left)), right(static_cast<size_t>(bytes.right)),
      output(static_cast<size_t>(bytes.output)), bias(static_cast<size_t>(bytes.bias));
  for (const Scratch* copy : {&left, &right, &output, &bias}) {
    if (copy->data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "matmul: no memory for float32 copies");
  }
  return for_blocks(p, [&](const Block& block) {
    MatmulProblem problem = problem_of_block(p, block);
    const TensorView lefts = left_view(p, block), rights = right_view(p, block), outputs = output_view(p, block);
    MTL_RETURN_IF_ERROR(cast(float32_copy(left, lefts), lefts));
    MTL_RETURN_IF_ERROR(cast(float32_copy(right, rights), rights));
    problem.left = left.data;
    problem.right = right.data;
    problem.output = outputs.data;
    if (problem.bias != nullptr) {
      const TensorView biases = bias_view(p, block);
      if (bytes.bias > 0) MTL_RETURN_IF_ERROR(cast(float32_copy(bias, biases), biases));
      problem.bias = bytes.bias > 0 ? bias.data : biases.data;
    }
    if (!is_narrow(p.output_dtype)) return onednn_matmul(problem);
    const TensorView sums = float32_copy(output, outputs);
    problem.output = output.data;
    if (p.accumulate && block.inner == 0) MTL_RETURN_IF_ERROR(cast(sums, outputs));
    MTL_RETURN_IF_ERROR(onednn_matmul(problem));
    return block.inner + block.num_inner < p.inner ? ok_status() : cast(outputs, sums);
  });
}

Status widened_scratch(const MatmulProblem& p, ScratchBlocks* blocks) {
  const CopyBytes bytes = copy_bytes(p);
  for (const int64_t size : {bytes.left, bytes.right, bytes.output, bytes.bias}) blocks->add(size);
  MatmulScratch most;
  MTL_RETURN_IF_ERROR(for_blocks(p, [&](const Block& block) {
    MatmulScratch scratch;
    MTL_RETURN_IF_ERROR(onednn_scratch(problem_of_block(p, block), &scratch));
    most.scratchpad = std::max(most.scratchpad, scratch.scratchpad);
    most.packed_right = std::max(most.packed_right, scratch.packed_right);
    return ok_status();
  }));
  blocks->add(static_cast<int64_t>(most.scratchpad));
  blocks->add(static_cast<int64_t>(most.packed_right));
  return ok_status();
}

}  // namespace mtl
