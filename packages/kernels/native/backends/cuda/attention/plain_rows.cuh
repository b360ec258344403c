// Attention in plain arithmetic: float32 (never TF32), and head sizes that tensor cores do not support.
//
// Each of a block's eight warps owns one row (a query, or a key in the backward pass of keys and values). All
// warps loop together over tiles of 32 rows of two matrices, converted to float in shared memory. To compute
// scores, a lane owns a row of the tile; to compute the sums that follow, every 32nd column.
#pragma once

#include "backends/cuda/attention/masks.cuh"

namespace mtl::cuda {

constexpr int kPlainWarps = 8, kPlainThreads = 32 * kPlainWarps, kPlainRows = 32;
constexpr int kMaxColumns = static_cast<int>(kMaxAttentionHeadSize) / 32;  // columns of one lane

// Returns a stride of at least a row that is an odd number of floats: lanes that read different rows then
// access different banks.
MTL_HOST_DEVICE inline int plain_stride(int width) { return width | 1; }
// Returns the bytes of two tiles, and of two rows per warp.
inline size_t plain_bytes(int width) {
  return sizeof(float) * (2 * kPlainRows * static_cast<size_t>(plain_stride(width)) + 2 * kPlainWarps * static_cast<size_t>(width));
}

struct PlainShared {
  float *left, *right;         // tiles
  float *own_left, *own_right;  // this warp's rows
};

MTL_PTX PlainShared plain_shared(unsigned char* bytes, int width) {
  float* tiles = reinterpret_cast<float*>(bytes);
  const int tile = kPlainRows * plain_stride(width), warp = static_cast<int>(threadIdx.x) / 32;
  float* rows = tiles + 2 * tile + 2 * warp * width;
  return {tiles, tiles + tile, rows, rows + width};
}

// The head's position in the rows of queries and in the rows of keys.
struct PlainPlace {
  HeadPlace queries, keys;
};

// Computes the offsets of a head as enter_head does, and supports packed samples whose queries and keys have
// separate rows and positions.
MTL_PTX PlainPlace plain_enter_head(AttentionArguments& a, int head_of_batch) {
  PlainPlace place = {head_place(a, head_of_batch), head_place(a, head_of_batch)};
  if (a.starts == nullptr) return place;
  const int batch = place.queries.batch;
  place.queries.first_row = a.query_starts[batch];
  place.keys.first_row = a.starts[batch];
  place.queries.statistics = head_of_batch % a.heads * a.rows + place.queries.first_row;
  a.sequence = a.query_starts[batch + 1] - place.queries.first_row;
  a.num_keys = a.starts[batch + 1] - place.keys.first_row;
  if (a.first_queries != nullptr) a.first_query = a.first_queries[batch];
  if (a.first_keys != nullptr) a.first_key = a.first_keys[batch];
  a.first_position = a.first_query - a.first_key;
  return place;
}

// Loads rows first .. first + 32 of a matrix, with zeros beyond the last row. Called by all threads of the
// block.
template <typename T>
MTL_PTX void load_plain_tile(float* tile, const T* matrix, int64_t stride, int first, int num_rows, int width) {
  for (int index = static_cast<int>(threadIdx.x); index < kPlainRows * width; index += kPlainThreads) {
    const int row = index / width, column = index % width;
    const bool real = first + row < num_rows;
    tile[row * plain_stride(width) + column] = real ? Numbers<T>::widen(matrix[(first + row) * stride + column]) : 0.0f;
  }
}

// Loads one row, or zeros if `real` is false. Called by one warp.
template <typename T>
MTL_PTX void load_plain_row(float* row, const T* matrix, int width, bool real) {
  for (int column = static_cast<int>(threadIdx.x) % 32; column < width; column += 32) {
    row[column] = real ? Numbers<T>::widen(matrix[column]) : 0.0f;
  }
  __syncwarp();
}

// Returns the dot product of the warp's row and the lane's row of a tile.
MTL_PTX float plain_dot(const float* row, const float* tile, int width) {
  const float* other = tile + static_cast<int>(threadIdx.x) % 32 * plain_stride(width);
  float sum = 0.0f;
  for (int column = 0; column < width; ++column) sum += row[column] * other[column];
  return sum;
}

// Adds to the sums the rows of a tile, each multiplied by the weight of one lane.
MTL_PTX void plain_accumulate(float (&sums)[kMaxColumns], float weight, const float* tile, int width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = 0; row < kPlainRows; ++row) {
    const float of_row = __shfl_sync(kWholeWarp, weight, row);
#pragma unroll
    for (int number = 0; number < kMaxColumns; ++number) {
      const int column = lane + 32 * number;
      if (column < width) sums[number] += of_row * tile[row * plain_stride(width) + column];
    }
  }
}

// Stores a row of a head in the operand's type, float32 or T. Only float32 rows can be added to the old
// values.
template <typename T>
MTL_PTX void store_plain_row(const AttentionOperand& operand, const HeadPlace& place, int row, const float (&sums)[kMaxColumns],
                             float factor, int width, bool accumulate) {
  const int64_t at = first_element(operand, place) + row * operand.position;
#pragma unroll
  for (int number = 0; number < kMaxColumns; ++number) {
    const int column = static_cast<int>(threadIdx.x) % 32 + 32 * number;
    if (column >= width) continue;
    const float value = sums[number] * factor;
    if (operand.dtype == DType::kFloat32) {
      float& to = static_cast<float*>(operand.data)[at + column];
      to = accumulate ? to + value : value;
    } else {
      static_cast<T*>(operand.data)[at + column] = Numbers<T>::narrow(value);
    }
  }
}

// The next functions compute ranges of keys and queries as keys_of_query and query_range of masks.cuh do, and
// also support windows. The kernels for tensor cores have no registers left for windows.
MTL_PTX int plain_first_key(const AttentionArguments& a, int position) { return min(max(position - a.window, 0), a.num_keys); }

MTL_PTX KeyRange plain_keys_of_query(const AttentionArguments& a, int batch, int query) {
  if (query >= a.sequence) return {0, 0};
  const int first = plain_first_key(a, a.first_position + query);
  const int64_t at = static_cast<int64_t>(batch) * a.sequence + query;
  const int begin = a.key_start == nullptr ? 0 : max(a.key_start[at], 0) - a.first_key;
  return {min(max(begin, first), a.num_keys), end_key(a, query)};
}

// Returns a range such that no query of a block attends to a key outside it. Every warp computes it with the
// same result, so that no barrier is needed.
MTL_PTX KeyRange plain_range(const AttentionArguments& a, int batch, int first_query) {
  const int last = min(first_query + kPlainWarps, a.sequence) - 1, end = end_key(a, last);
  if (a.key_start == nullptr) return {plain_first_key(a, a.first_position + first_query), end};
  unsigned lowest = ~0u;
  for (int query = first_query + static_cast<int>(threadIdx.x) % 32; query <= last; query += 32) {
    lowest = min(lowest, static_cast<unsigned>(plain_keys_of_query(a, batch, query).begin));
  }
  return {static_cast<int>(__reduce_min_sync(kWholeWarp, lowest)), end};
}

// Returns the queries [begin, end) that causality and a window let attend to keys of a block.
MTL_PTX KeyRange plain_queries_of_keys(const AttentionArguments& a, int first_key) {
  if (!a.causal) return {0, a.sequence};
  const int first = first_key - a.first_position;  // the query whose position is the first key's
  const int left = a.sequence - first - kPlainWarps;
  return {max(first, 0), a.window < left ? first + kPlainWarps + a.window : a.sequence};
}

MTL_PTX bool is_visible(const AttentionArguments& a, int batch, const KeyRange& range, int key) {
  return key >= range.begin && key < range.end &&
         (a.key_mask == nullptr || a.key_mask[static_cast<int64_t>(batch) * a.num_keys + key] != 0);
}

MTL_PTX bool is_kept(const AttentionArguments& a, const DropoutSite& site, int query, int key) {
  if (site.threshold == 0) return true;
  const int column = a.first_key + key;
  const PhiloxBlock random =
      philox(site.key, philox_column_counter(column), static_cast<uint32_t>(a.first_query + query), site.sample_low, site.sample_high);
  const int word = philox_column_word(column);  // not an index: that would put the words into local memory
  const uint32_t low = word & 1 ? random.words[1] : random.words[0], high = word & 1 ? random.words[3] : random.words[2];
  return (word & 2 ? high : low) >= site.threshold;
}

// Returns a launch with one warp for each of num_rows queries or keys of every head (num_heads per sample).
inline Launch plain_launch(const AttentionArguments& a, int num_rows, int num_heads, cudaStream_t stream) {
  const unsigned num_groups = static_cast<unsigned>((num_rows + kPlainWarps - 1) / kPlainWarps);
  return {dim3(num_groups, static_cast<unsigned>(a.batch * num_heads)), kPlainThreads, plain_bytes(a.head_size), stream};
}

}  // namespace mtl::cuda
