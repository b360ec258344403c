// Attention over a cache of keys and values. A header, since it goes by the tiles of attention_forward.cc,
// which registers it: compiled apart they would be compiled twice, and nothing takes a compiler longer.
#pragma once

#include "backends/cpu/simd/attention_one_query.h"

namespace mtl {
namespace {

Status cached_forward(const OpCall& call) {
  const TensorView& tensor = call.tensor(kCachedQkv);
  return for_floating(tensor.dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t queries = tensor.dim(0), num_heads = tensor.dim(1) * tensor.dim(2), size = tensor.dim(4);
    const int64_t capacity = call.tensor(kCachedKeyCache).dim(2), position = call.integer(kCachedPosition);
    const int64_t num_keys = position + queries, stride = num_heads * 3 * size;
    const T* qkv = call.data<const T>(kCachedQkv);
    T* keys = call.data<T>(kCachedKeyCache);
    T* values = call.data<T>(kCachedValueCache);
#pragma omp parallel for schedule(static) if (queries * num_heads * size >= kParallelElements)
    for (int64_t head = 0; head < num_heads; ++head) {
      for (int64_t query = 0; query < queries; ++query) {
        const T* source = qkv + query * stride + (head * 3 + 1) * size;
        const int64_t at = (head * capacity + position + query) * size;
        for (int64_t d = 0; d < size; ++d) keys[at + d] = source[d];
        for (int64_t d = 0; d < size; ++d) values[at + d] = source[size + d];
      }
    }
    if (queries == 1) {
      return attend_one_query_all<T>(num_heads, num_keys, size, [&](int64_t head) {
        return OneQuery<T>{qkv + head * 3 * size,
                           keys + head * capacity * size,
                           values + head * capacity * size,
                           call.data<T>(kCachedOutput) + head * size,
                           num_keys,
                           size,
                           static_cast<float>(call.attribute(kCachedScale))};
      });
    }
    return forward_all<T>(num_heads, queries, num_keys, size, [&](int64_t head) {
      return ForwardHead<T>{{qkv + head * 3 * size, stride, queries, size},
                            {keys + head * capacity * size, size, num_keys, size},
                            {values + head * capacity * size, size, num_keys, size},
                            {call.data<T>(kCachedOutput) + head * size, num_heads * size, queries, size},
                            nullptr,
                            Visibility{queries, num_keys, position, true, nullptr, nullptr},
                            no_dropout(),
                            static_cast<float>(call.attribute(kCachedScale))};
    });
  });
}

}  // namespace
}  // namespace mtl
