// Decides which keys a query attends to and which probabilities dropout keeps, in tiles of 64 keys.
#pragma once

#include "backends/cuda/attention/arguments.h"
#include "backends/cuda/attention/tiles.cuh"
#include "backends/cuda/kernels/block_reduce.h"

namespace mtl::cuda {

// A range of keys [begin, end).
struct KeyRange {
  int begin, end;
};

// Returns the end of the keys that causality lets a query attend to; 0 or less if the query is before all
// keys.
template <typename Arguments>
MTL_PTX int end_key(const Arguments& a, int query) {
  const Positions at = positions_of(a);
  return a.causal ? min(at.first_position + query + 1, at.num_keys) : at.num_keys;
}

// Returns the range of keys of a query. key_start is relative to the call's first key (first_keys_kernel).
template <typename Arguments>
MTL_PTX KeyRange keys_of_query(const Arguments& a, int batch, int query) {
  if (query >= a.sequence) return {0, 0};
  const int begin = a.key_start == nullptr ? 0 : a.key_start[static_cast<int64_t>(batch) * a.sequence + query];
  return {min(max(begin, 0), positions_of(a).num_keys), end_key(a, query)};
}

// Facts that kQueries queries, from first_query on, share.
struct QueryRange {
  KeyRange any;  // no query attends to a key outside
  KeyRange all;  // every query attends to the keys inside, apart from the key mask
};

// Computes the shared facts. Every warp computes them with the same result, so that no barrier is needed.
template <int kQueries, typename Arguments>
MTL_PTX QueryRange query_range(const Arguments& a, int batch, int first_query) {
  const int last = min(first_query + kQueries, a.sequence) - 1;
  const int first_end = end_key(a, first_query), last_end = end_key(a, last);
  if (a.key_start == nullptr) return {{0, last_end}, {0, first_end}};
  unsigned lowest = ~0u, highest = 0;
  for (int query = first_query + static_cast<int>(threadIdx.x) % 32; query <= last; query += 32) {
    const unsigned begin = static_cast<unsigned>(keys_of_query(a, batch, query).begin);
    lowest = min(lowest, begin);
    highest = max(highest, begin);
  }
  lowest = __reduce_min_sync(kWholeWarp, lowest);
  highest = __reduce_max_sync(kWholeWarp, highest);
  return {{static_cast<int>(lowest), last_end}, {static_cast<int>(highest), first_end}};
}

// Returns the first query of the first tile of 64 queries in which causality lets a query attend to a key.
MTL_PTX int first_query_of_key(const AttentionArguments& a, int key) {
  return a.causal ? max(key - a.first_position, 0) / kTile * kTile : 0;
}

// Returns a mask whose bit i states that key first_key + i exists and is not masked.
template <typename Arguments>
MTL_PTX uint64_t shown_keys(const Arguments& a, int batch, int first_key) {
  const int num_keys = positions_of(a).num_keys, left = num_keys - first_key;
  const uint64_t real = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  if (a.key_mask == nullptr) return real;
  const uint8_t* mask = a.key_mask + static_cast<int64_t>(batch) * num_keys + first_key;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned low = __ballot_sync(kWholeWarp, lane < left && mask[min(lane, left - 1)] != 0);
  const unsigned high = __ballot_sync(kWholeWarp, lane + 32 < left && mask[min(lane + 32, left - 1)] != 0);
  return uint64_t{high} << 32 | low;
}

struct KeyTile {
  int first;       // first key
  uint64_t shown;  // mask that shown_keys returns
};

// Returns the first key of the next tile, from `first` (a multiple of 64) on, that the key mask does not hide
// completely; range.any.end or more if there is no such tile.
template <typename Arguments>
MTL_PTX int next_key_tile(const Arguments& a, int batch, const QueryRange& range, int first) {
  while (a.key_mask != nullptr && first < range.any.end && shown_keys(a, batch, first) == 0) first += kTile;
  return first;
}

MTL_PTX bool all_visible(const QueryRange& range, const KeyTile& tile) {
  return tile.first >= range.all.begin && tile.first + kTile <= range.all.end && tile.shown == ~uint64_t{0};
}

// Returns a mask whose bit i states that the query with this range attends to key tile.first + i.
MTL_PTX uint64_t visible_keys(const KeyRange& range, const KeyTile& tile) {
  const int begin = max(range.begin - tile.first, 0), end = range.end - tile.first;
  if (begin >= 64 || end <= begin) return 0;
  const uint64_t below_end = end >= 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
  return tile.shown & below_end & (~uint64_t{0} << begin);
}

// Writes -infinity over the scores of keys that the thread's two queries do not attend to.
MTL_PTX void hide(float (&scores)[kTile / 8][4], const KeyRange (&ranges)[2], const KeyTile& tile) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint64_t visible = visible_keys(ranges[half], tile) >> column;
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if ((visible >> (8 * n + i) & 1) == 0) scores[n][2 * half + i] = -INFINITY;
      }
    }
  }
}

struct DropoutSite {
  PhiloxKey key;
  uint32_t threshold, sample_low, sample_high;
};

MTL_PTX DropoutSite dropout_site(const AttentionArguments& a, const HeadPlace& place) {
  if (a.dropout_threshold == 0) return {};
  const int64_t sample = a.samples[place.batch];
  const int head = place.group * a.members + place.member;
  return {a.philox_key, a.dropout_threshold, philox_sample_low(sample), philox_sample_high(sample, a.head_offset + head)};
}

// Applies dropout to the thread's row `half`, which is query `query`, in a tile from first_key on: writes
// zeros for dropped elements. A thread has 16 of the tile's 64 columns; in the counters of core/philox.h,
// these are exactly the words of four blocks.
MTL_PTX void drop(float (&values)[kTile / 8][4], int half, const DropoutSite& site, int query, int first_key) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int number = 0; number < 4; ++number) {
    const PhiloxBlock random = philox(site.key, philox_column_counter(first_key + column + number / 2 * 8 + number % 2),
                                      static_cast<uint32_t>(query), site.sample_low, site.sample_high);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      if (random.words[word] < site.threshold) values[2 * word + number / 2][2 * half + number % 2] = 0.0f;
    }
  }
}

}  // namespace mtl::cuda
