// Matmuls with the blocking of GotoBLAS and BLIS (Van Zee and van de Geijn, 2015). All threads together pack
// the right operand, a chunk of its columns at a time. Each thread then takes blocks of rows, packs them for
// a block of the inner dimension, and computes tile by tile. The order in which a sum is computed depends
// only on the inner dimension, so the bits do not depend on the number of threads, rows or columns.
#pragma once

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/simd/matmul_packing.h"
#include "backends/cpu/simd/matmul_tile.h"
#include "backends/cpu/threads.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

// The number of steps in a block, which is a range of the inner dimension. Blocks are long because every
// block reads and writes the sums in memory, which takes more time than a shorter block would save by fitting
// into a smaller cache. (Measured on Zen 5: 256 steps were up to 15 % slower, and 1,536 steps were not
// faster.)
constexpr int64_t kStepsOfBlock = 768;
constexpr int64_t kPackedBytes = int64_t{8} << 20;  // of the right operand
constexpr int64_t kNearBytes = int64_t{1} << 18;    // of the right operand, read again for each tile of rows: as few
                                                    // streams of output as possible
// The columns of a tile of output are prefetched from the L3 cache while the columns before them are
// multiplied, unless they take so much of the L2 cache that the left operand loses its place. (Measured on
// Sapphire Rapids: without prefetches float32 takes 1.05 to 1.1 times as long, and bfloat16 with an inner
// dimension of 384 1.1 times; prefetches of 384 KiB made bfloat16 slower. Not measured elsewhere.)
constexpr int64_t kPrefetchedBytes = int64_t{1} << 18;
constexpr int64_t kFewestColumns = 1024;            // of a chunk: the left operand is packed again for each chunk
constexpr int64_t kParallelProducts = int64_t{1} << 17;  // with fewer multiplications one thread is faster

// Returns where part `i` of `parts` nearly equal parts begins.
MTL_INLINE int64_t part_start(int64_t length, int64_t parts, int64_t i) { return length * i / parts; }

// Where sums are stored in float32 until the next block of steps.
enum class Sums {
  kInOutput,    // the output, which is float32
  kNowhere,     // in no memory: there is only one block of steps
  kOfRowBlock,  // in memory of each thread, for the rows of a block and the columns of a chunk
  kOfMatrix,    // in memory for one whole matrix
};

// The blocking for one matrix of the batch. A panel has kLanes rows or columns.
struct Blocks {
  int64_t row_panels, column_panels, steps;
  int threads;
  int64_t block_steps;               // of each block of the inner dimension except the last
  int64_t part_steps, chunk_panels;  // of the part of the right operand that is packed at once
  int64_t panel_length;  // of the packed right operand: one more than its steps, so that panels begin in different
                         // cache sets
  int64_t row_blocks, block_panels;  // number of blocks of rows; panels of the largest block
  int64_t column_parts;              // parts of a chunk, for several threads
  Sums sums;

  int64_t right_vectors() const { return chunk_panels * panel_length; }
  int64_t matrix_vectors() const { return sums == Sums::kOfMatrix ? row_panels * kLanes * column_panels : 0; }
  int64_t left_vectors() const { return block_panels * block_steps; }
  int64_t thread_vectors() const {
    return left_vectors() + (sums == Sums::kOfRowBlock ? block_panels * kLanes * chunk_panels : 0);
  }
  int64_t vectors() const { return right_vectors() + matrix_vectors() + threads * thread_vectors(); }
};

// Chooses `part_steps`, `chunk_panels` and `sums`.
template <typename Lanes>
void cut_right_operand(DType output_dtype, Blocks* b) {
  constexpr int64_t kVectorBytes = sizeof(VUint);
  const int64_t most = kPackedBytes / kVectorBytes;  // vectors
  const bool is_float = output_dtype == DType::kFloat32;
  // if possible, parts have the complete inner dimension
  b->part_steps = b->steps;
  b->chunk_panels = smaller(b->column_panels, larger(most / (b->steps + 1), kFewestColumns / kLanes));
  b->sums = is_float ? Sums::kInOutput : b->steps > b->block_steps ? Sums::kOfRowBlock : Sums::kNowhere;
  const int64_t of_matrix = is_float ? 0 : b->row_panels * kLanes * b->column_panels;
  if (b->chunk_panels * (b->steps + 1) > most + of_matrix) {
    const int64_t blocks = larger(1, most / b->column_panels / b->block_steps);
    b->part_steps = smaller(b->steps, blocks * b->block_steps);
    b->chunk_panels = smaller(b->column_panels, most / (b->part_steps + 1));
    if (!is_float) b->sums = Sums::kOfMatrix;
  }
  b->panel_length = b->part_steps + 1;
  // makes chunks that are about equally large and consist of complete tiles
  const int64_t chunks = divide_up(b->column_panels, b->chunk_panels);
  b->chunk_panels = smaller(b->column_panels, round_up(divide_up(b->column_panels, chunks), Lanes::kTileVectors));
}

template <typename Lanes>
Blocks blocks_of(const MatmulProblem& p, int threads) {
  Blocks b;
  b.row_panels = divide_up(p.rows, kLanes);
  b.column_panels = divide_up(p.columns, kLanes);
  b.steps = num_steps<Lanes>(p.inner);
  b.threads = p.rows * p.columns * p.inner < kParallelProducts ? 1 : threads;
  b.block_steps = smaller(b.steps, round_up(divide_up(b.steps, divide_up(b.steps, kStepsOfBlock)), kLanes));
  cut_right_operand<Lanes>(p.output_dtype, &b);
  b.column_parts = 1;
  while (b.column_parts < b.threads && b.row_panels * b.column_parts < 4 * b.threads) b.column_parts *= 2;
  b.column_parts = smaller(b.column_parts, divide_up(b.chunk_panels, Lanes::kTileVectors));
  const int64_t multiple = divide_up(b.threads, b.column_parts);  // all threads get the same number
  b.row_blocks = smaller(b.row_panels, round_up(divide_up(b.row_panels, Lanes::kRowsOfBlock / kLanes), multiple));
  b.block_panels = divide_up(b.row_panels, b.row_blocks);
  return b;
}

VFloat load_as_float(DType dtype, const void* data, int64_t index, int64_t count) {
  if (dtype == DType::kFloat32) return load_up_to(static_cast<const float*>(data) + index, count);
  if (dtype == DType::kBFloat16) return load_up_to(static_cast<const bfloat16*>(data) + index, count);
  return load_up_to(static_cast<const float16*>(data) + index, count);
}

void store_float_as(DType dtype, void* data, int64_t index, VFloat value, int64_t count) {
  if (dtype == DType::kFloat32) return store_up_to(static_cast<float*>(data) + index, value, count);
  if (dtype == DType::kBFloat16) return store_up_to(static_cast<bfloat16*>(data) + index, value, count);
  store_up_to(static_cast<float16*>(data) + index, value, count);
}

// A few rows and columns of the output. Their sums stay in registers.
struct Tile {
  int64_t row, rows, column, columns;

  int vectors() const { return static_cast<int>(divide_up(columns, kLanes)); }
};

// Calls body(row, column, count) for each vector of a tile, where `count` is how many columns remain from
// `column` on.
template <typename Body>
MTL_INLINE void for_vectors(const Tile& tile, const Body& body) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int64_t column = 0; column < tile.columns; column += kLanes) body(row, column, tile.columns - column);
  }
}

// The operands and the output for one matrix of the batch.
template <typename T>
struct Operands {
  StoredOperand<T> left, right;
  char* output;

  Operands(const MatmulProblem& p, int64_t matrix) {
    const int64_t left_rows = p.transpose_left ? p.inner : p.rows, right_rows = p.transpose_right ? p.columns : p.inner;
    left = {static_cast<const T*>(p.left) + matrix * left_rows * p.left_row_length,
            p.transpose_left ? 1 : p.left_row_length, p.transpose_left ? p.left_row_length : 1, p.rows, p.inner};
    right = {static_cast<const T*>(p.right) + matrix * right_rows * p.right_row_length,
             p.transpose_right ? p.right_row_length : 1, p.transpose_right ? 1 : p.right_row_length, p.columns, p.inner};
    output = static_cast<char*>(p.output) +
             matrix * p.rows * p.output_row_length * static_cast<int64_t>(size_of(p.output_dtype));
  }
};

// The part of the right operand that is currently packed.
struct PackedRight {
  int64_t first_panel, last_panel;
  int64_t first_step, last_step;
};

// Columns of the packed right operand that are multiplied next, over some steps.
struct NextColumns {
  const VUint* data;
  int64_t panels, steps;

  // Returns the share of the columns that is prefetched during one of several tiles, each of `tile_steps`
  // steps.
  Ahead share(int64_t tile, int64_t tiles, int64_t tile_steps, int64_t panel_length) const {
    const int64_t vectors = panels * steps;
    if (vectors == 0 || vectors * static_cast<int64_t>(sizeof(VUint)) > kPrefetchedBytes) {
      return {reinterpret_cast<const char*>(data), 0};
    }
    const int64_t begin = vectors * tile / tiles;
    return {reinterpret_cast<const char*>(data + begin / steps * panel_length + begin % steps),
            divide_up(vectors * static_cast<int64_t>(sizeof(VUint)), tiles * tile_steps)};
  }
};

// A view of float32 sums of the whole matrix, a block or a tile.
struct SumsView {
  float* data;  // null: sums are not kept in memory
  int64_t row_length;
  int64_t first_row, first_column;

  float* at(const Tile& tile) const { return data + (tile.row - first_row) * row_length + tile.column - first_column; }
};

// Computes one matrix of the batch.
template <typename Lanes>
struct Multiplication {
  using Element = typename Lanes::Element;
  static constexpr int kTileRows = Lanes::kTileRows, kTileVectors = Lanes::kTileVectors;

  const MatmulProblem& problem;
  const Blocks& blocks;
  const Operands<Element> operands;
  VUint *const packed_right, *const matrix_sums, *const of_threads;
  const bool left_in_matrix;

  Multiplication(const MatmulProblem& p, const Blocks& b, int64_t matrix, VUint* memory)
      : problem(p),
        blocks(b),
        operands(p, matrix),
        packed_right(memory),
        matrix_sums(memory + b.right_vectors()),
        of_threads(matrix_sums + b.matrix_vectors()),
        left_in_matrix(holds_steps<Lanes>(operands.left)) {}

  void run() const {
    for (int64_t step = 0; step < blocks.steps; step += blocks.part_steps) {
      for (int64_t panel = 0; panel < blocks.column_panels; panel += blocks.chunk_panels) {
        const PackedRight part = {panel, smaller(panel + blocks.chunk_panels, blocks.column_panels), step,
                                  smaller(step + blocks.part_steps, blocks.steps)};
        TaskCounter packed, multiplied;
        TaskCounter *next_pack = &packed, *next_block = &multiplied;
        on_threads(blocks.threads, [=](int) { pack_right(part, next_pack); });
        on_threads(blocks.threads, [=](int thread) {
          Lanes::begin();
          multiply_blocks(part, thread, next_block);
          Lanes::end();
        });
      }
    }
  }

  void pack_right(const PackedRight& part, TaskCounter* next) const {
    const int64_t groups = divide_up(part.last_panel - part.first_panel, kPanelsTogether<Element>);
    const int64_t tasks = groups * divide_up(part.last_step - part.first_step, blocks.block_steps);
    for (int64_t task = next->take(); task < tasks; task = next->take()) {
      const int64_t panel = part.first_panel + task % groups * kPanelsTogether<Element>,
                    step = part.first_step + task / groups * blocks.block_steps;
      pack<Lanes, false>(PackedPart<Element>{
          operands.right, panel, smaller(panel + kPanelsTogether<Element>, part.last_panel), step,
          smaller(step + blocks.block_steps, part.last_step), right_at(part, panel, step), blocks.panel_length});
    }
  }

  VUint* right_at(const PackedRight& part, int64_t panel, int64_t step) const {
    return packed_right + (panel - part.first_panel) * blocks.panel_length + step - part.first_step;
  }

  void multiply_blocks(const PackedRight& part, int thread, TaskCounter* next) const {
    const int64_t panels = part.last_panel - part.first_panel, groups = divide_up(panels, kTileVectors);
    const int64_t tasks = blocks.row_blocks * blocks.column_parts;
    for (int64_t task = next->take(); task < tasks; task = next->take()) {
      const int64_t block = task / blocks.column_parts, column_part = task % blocks.column_parts;
      const int64_t first_row = part_start(blocks.row_panels, blocks.row_blocks, block),
                    last_row = part_start(blocks.row_panels, blocks.row_blocks, block + 1),
                    first = part_start(groups, blocks.column_parts, column_part) * kTileVectors,
                    last = part_start(groups, blocks.column_parts, column_part + 1) * kTileVectors;
      multiply_block(part, first_row, last_row, part.first_panel + first, part.first_panel + smaller(last, panels),
                     thread);
    }
  }

  // Multiplies the rows in panels `first_row` to `last_row` by the columns in panels `first` to `last`.
  void multiply_block(const PackedRight& part, int64_t first_row, int64_t last_row, int64_t first, int64_t last,
                      int thread) const {
    VUint* const packed_left = of_threads + thread * blocks.thread_vectors();
    const SumsView sums = sums_of_block(part, first_row, packed_left + blocks.left_vectors());
    const int64_t end = smaller(last_row * kLanes, problem.rows);
    for (int64_t step = part.first_step; step < part.last_step; step += blocks.block_steps) {
      const int64_t steps = smaller(blocks.block_steps, blocks.steps - step);
      if (!left_in_matrix) {
        pack<Lanes, Lanes::kLeftByRow>(
            PackedPart<Element>{operands.left, first_row, last_row, step, step + steps, packed_left, steps});
      }
      const auto multiply = [&](int64_t panel, int64_t row, const Ahead& ahead) {
        const int64_t column = panel * kLanes, in_block = row - first_row * kLanes,
                      columns = smaller(smaller(panel + kTileVectors, last) * kLanes, problem.columns) - column;
        const Tile tile = {row, smaller(kTileRows, end - row), column, columns};
        TileProduct product = {};
        if (left_in_matrix) {
          product.left = reinterpret_cast<const Lane*>(operands.left.at(row, step * Lanes::kElements));
          product.left_row_length = operands.left.lane_stride / Lanes::kElements;
        } else {
          product.left = reinterpret_cast<const Lane*>(packed_left + in_block / kLanes * steps) + in_block % kLanes;
          product.left_panel_length = steps;
        }
        product.rows = tile.rows;
        product.right = right_at(part, panel, step);
        product.right_panel_length = blocks.panel_length;
        product.steps = steps;
        product.ahead = ahead;
        multiply_tile_of(tile, product, sums, step);
      };
      const Ahead nothing = {reinterpret_cast<const char*>(packed_right), 0};
      if ((last - first) * steps * static_cast<int64_t>(sizeof(VUint)) <= kNearBytes) {
        for (int64_t row = first_row * kLanes; row < end; row += kTileRows) {
          for (int64_t panel = first; panel < last; panel += kTileVectors) multiply(panel, row, nothing);
        }
      } else {
        for (int64_t panel = first; panel < last; panel += kTileVectors) {
          const NextColumns next = columns_after(part, panel, first, last, step);
          const int64_t tiles = divide_up(end - first_row * kLanes, kTileRows);
          for (int64_t tile = 0; tile < tiles; ++tile) {
            multiply(panel, first_row * kLanes + tile * kTileRows, next.share(tile, tiles, steps, blocks.panel_length));
          }
        }
      }
    }
  }

  // Returns the columns that are multiplied after a tile's columns in a block: the next columns, or
  // the first columns of the next steps, or of the next block of rows.
  NextColumns columns_after(const PackedRight& part, int64_t panel, int64_t first, int64_t last, int64_t step) const {
    if (!Lanes::kPrefetchesColumns) return {packed_right, 0, 0};
    panel += kTileVectors;
    if (panel >= last) {
      panel = first;
      step += blocks.block_steps;
      if (step >= part.last_step) step = part.first_step;
    }
    return {right_at(part, panel, step), smaller(kTileVectors, last - panel), smaller(blocks.block_steps, part.last_step - step)};
  }

  SumsView sums_of_block(const PackedRight& part, int64_t first_row, VUint* of_thread) const {
    switch (blocks.sums) {
      case Sums::kInOutput:
        return {reinterpret_cast<float*>(operands.output), problem.output_row_length, 0, 0};
      case Sums::kOfRowBlock:
        return {reinterpret_cast<float*>(of_thread), blocks.chunk_panels * kLanes, first_row * kLanes,
                part.first_panel * kLanes};
      case Sums::kOfMatrix:
        return {reinterpret_cast<float*>(matrix_sums), blocks.column_panels * kLanes, 0, 0};
      default:
        return {nullptr, 0, 0, 0};
    }
  }

  // Computes a tile's sums over some steps, from `step` on. After the last steps, writes the output.
  void multiply_tile_of(const Tile& tile, TileProduct product, const SumsView& sums, int64_t step) const {
    const TileKernel kernel = Lanes::kernel(tile.rows, tile.vectors(), product.left_row_length > 0);
    const bool is_first = step == 0, is_last = step + product.steps == blocks.steps,
               in_output = blocks.sums == Sums::kInOutput;
    // the output's memory ends at the end of the tile, whereas all other memory for sums has room for
    // elements that a kernel computes beyond the tile
    const bool in_place = sums.data != nullptr &&
                          (!in_output || (kernel.rows == tile.rows && tile.columns % kLanes == 0));
    float small[kTileRows * kTileVectors * kLanes] __attribute__((aligned(64)));
    product.sums = in_place ? sums.at(tile) : small;
    product.row_length = in_place ? sums.row_length : kTileVectors * kLanes;
    // copies the values to which the sums are added, unless the sums are computed in the memory of these
    // values
    const bool has_bias = is_first && problem.bias != nullptr,
               has_output = is_first ? problem.accumulate : in_output;
    if (has_bias || (has_output && !(in_output && in_place))) prepare(tile, product, has_bias, has_output);
    product.add = has_bias || has_output || !is_first;
    if (Lanes::kPrefetchesOutput && in_output && in_place && is_first) prefetch_output(tile, product);
    kernel.multiply(product);
    if (!in_place || (is_last && !in_output)) write(tile, product);
  }

  // Returns the output index of the first element in a row of the tile.
  int64_t index_of(const Tile& tile, int64_t row) const {
    return (tile.row + row) * problem.output_row_length + tile.column;
  }

  // Prefetches the output of a tile, because a line of memory is read before its first write. (Measured on
  // Sapphire Rapids: without it, float32 with an inner dimension of 384 takes 1.05 times as long. On tiles
  // nothing is gained.)
  void prefetch_output(const Tile& tile, const TileProduct& product) const {
    for_vectors(tile, [&](int64_t row, int64_t column, int64_t) {
      __builtin_prefetch(product.sums + row * product.row_length + column, 1, 2);
    });
  }

  void prepare(const Tile& tile, const TileProduct& product, bool has_bias, bool has_output) const {
    for_vectors(tile, [&](int64_t row, int64_t column, int64_t count) {
      VFloat value = {};
      if (has_output) {
        value = load_as_float(problem.output_dtype, operands.output, index_of(tile, row) + column, count);
      }
      if (has_bias) value += load_as_float(problem.bias_dtype, problem.bias, tile.column + column, count);
      store(product.sums + row * product.row_length + column, value);
    });
  }

  void write(const Tile& tile, const TileProduct& product) const {
    for_vectors(tile, [&](int64_t row, int64_t column, int64_t count) {
      store_float_as(problem.output_dtype, operands.output, index_of(tile, row) + column,
                     load(product.sums + row * product.row_length + column), count);
    });
  }
};

// How a batch is distributed: if there are enough matrices for all threads, several are computed at the same
// time, each by one thread.
struct Distribution {
  Blocks blocks;
  int at_once;

  int64_t vectors() const { return at_once * blocks.vectors(); }
};

template <typename Lanes>
Distribution distribution_of(const MatmulProblem& p) {
  const int threads = num_threads();
  if (p.batch < threads) return {blocks_of<Lanes>(p, threads), 1};
  const bool is_small = p.batch * p.rows * p.columns * p.inner < kParallelProducts;
  return {blocks_of<Lanes>(p, 1), is_small ? 1 : threads};
}

template <typename Lanes>
Status multiply_blocked(const MatmulProblem& p) {
  const Distribution distribution = distribution_of<Lanes>(p);
  const Blocks& blocks = distribution.blocks;
  const Scratch scratch(static_cast<uint64_t>(distribution.vectors()) * sizeof(VUint));
  VUint* const memory = static_cast<VUint*>(scratch.data);
  if (memory == nullptr) return error_status("MTL_OUT_OF_MEMORY", "matmul: no memory for packed operands");
  if (distribution.at_once == 1) {
    for (int64_t matrix = 0; matrix < p.batch; ++matrix) Multiplication<Lanes>(p, blocks, matrix, memory).run();
    return ok_status();
  }
  TaskCounter counter;
  TaskCounter* const next = &counter;
  on_threads(distribution.at_once, [&](int thread) {
    for (int64_t matrix = next->take(); matrix < p.batch; matrix = next->take()) {
      Multiplication<Lanes>(p, blocks, matrix, memory + thread * blocks.vectors()).run();
    }
  });
  return ok_status();
}

template <typename Lanes>
Status blocked_scratch(const MatmulProblem& p, ScratchBlocks* scratch) {
  scratch->add(distribution_of<Lanes>(p).vectors() * static_cast<int64_t>(sizeof(VUint)));
  return ok_status();
}

}  // namespace
}  // namespace mtl
