// Code that the Hopper blocks for gradients of keys and values share: the range of queries that attend to a
// block's keys, and the warp group that loads. This group copies tiles of queries and of the gradients of
// their output into a ring and computes the dropout bits.
//
// A kernel's Shape defines the number of tiles of 64 keys per block (kKeyTiles), the distances between them
// and to their values (kKeyBytes, kValuesAt), and the offset of the facts about queries (kFactsAt).
#pragma once

#include "backends/cuda/attention/hopper_tiles.cuh"
#include "backends/cuda/attention/query_facts.cuh"

namespace mtl::cuda {

// Values that are the same in all threads of a block.
struct KeyBlock {
  HeadPlace place;  // the first head of a group
  int first_key;
};
// Stores a packed sample's length in the arguments; if first_key is past it, the block has nothing to do.
template <typename Shape>
MTL_PTX KeyBlock key_block(AttentionArguments& a) {
  // the first keys have the most queries and start first
  return {enter_head(a, static_cast<int>(blockIdx.y) * a.members), static_cast<int>(blockIdx.x) * Shape::kRows};
}

// Returns the facts about a slot's queries. There is one QueryFacts for each tile of keys, because the
// dropout bits differ.
template <typename Shape>
MTL_PTX QueryFacts* facts_at(unsigned char* bytes, int slot) {
  return reinterpret_cast<QueryFacts*>(bytes + Shape::kFactsAt) + slot * Shape::kKeyTiles;
}

// Returns the next tile of queries that attend to one of the block's keys. All warps get the same result, for
// every head of the group.
template <typename Shape>
MTL_PTX int next_query_tile(const AttentionArguments& a, const KeyBlock& block, int first_query) {
  for (; first_query < a.sequence; first_query += kTile) {
    const KeyRange seen = query_range<kTile>(a, block.place.batch, first_query).any;
    if (block.first_key + Shape::kRows > seen.begin && block.first_key < seen.end) return first_query;
  }
  return first_query;
}
template <typename Shape>
MTL_PTX int first_query_tile(const AttentionArguments& a, const KeyBlock& block) {
  return next_query_tile<Shape>(a, block, first_query_of_key(a, block.first_key));
}

// Called by a warp group: one thread copies tiles, all threads compute the facts about queries.
template <typename Shape, int kWidth, bool kDropout>
MTL_PTX void produce_queries(unsigned char* bytes, const BackwardMaps& maps, const AttentionArguments& a, const KeyBlock& block) {
  auto& barriers = barriers_of<Shape>(bytes);
  const int thread = static_cast<int>(threadIdx.x), position = block.place.first_row;
  if (thread == 0) {
    arrive_expecting(&barriers.resident, 2 * Shape::kKeyTiles * Shape::Tile::kBytes);
#pragma unroll
    for (int number = 0; number < Shape::kKeyTiles; ++number) {
      const int key = position + block.first_key + number * kTile;
      unsigned char* tile = bytes + number * Shape::kKeyBytes;
      copy_tile<kWidth, kTile>(tile, maps.key, vector_of(maps.key, block.place), key, &barriers.resident);
      copy_tile<kWidth, kTile>(tile + Shape::kValuesAt, maps.value, vector_of(maps.value, block.place), key,
                               &barriers.resident);
    }
  }
  typename Shape::Place place;
#pragma unroll 1
  for (HeadPlace head = block.place; head.member < a.members; enter_next_member(a, head)) {
    const DropoutSite site = dropout_site(a, head);
#pragma unroll 1
    for (int query = first_query_tile<Shape>(a, block); query < a.sequence; query = next_query_tile<Shape>(a, block, query + kTile)) {
      wait_until_empty(barriers, place);
      if (thread == 0) {
        unsigned char* tile = slot_at<Shape>(bytes, place);
        uint64_t* const full = &barriers.full[place.slot];
        arrive_expecting(full, Shape::kSlotBytes);
        copy_tile<kWidth, kTile>(tile, maps.query, vector_of(maps.query, head), position + query, full);
        copy_tile<kWidth, kTile>(tile + Shape::Tile::kBytes, maps.output_gradient, vector_of(maps.output_gradient, head),
                                 position + query, full);
      }
      QueryFacts* facts = facts_at<Shape>(bytes, place.slot);
      if (thread / kTile < Shape::kKeyTiles) load_facts(facts[thread / kTile], a, head, query, thread % kTile);
      if constexpr (kDropout) {
#pragma unroll 1
        for (int number = 0; number < Shape::kKeyTiles; ++number) {
          load_dropout(facts[number], site, a.first_query + query, a.first_key + block.first_key + number * kTile);
        }
      }
      __syncwarp();
      if (thread % 32 == 0) arrive(&barriers.full[place.slot]);
      place.advance();
    }
  }
}

}  // namespace mtl::cuda
