#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/caching_allocator.h"
#include "ops/attention.h"

namespace mtl::reference {
namespace {

// One new position of one head: `query` is the index of its q in qkv, `cache` that of the head's first cached
// key.
void attend(const OpCall& call, int64_t query, int64_t cache, int64_t num_keys, int64_t output, double* sums) {
  const TensorView& keys = call.tensor(kCachedKeyCache);
  const int64_t size = keys.dim(3);
  const auto score = [&](int64_t key) {
    double sum = 0.0;
    for (int64_t d = 0; d < size; ++d) {
      sum += get(call.tensor(kCachedQkv), query + d) * get(keys, cache + key * size + d);
    }
    return call.attribute(kCachedScale) * sum;
  };
  double maximum = -INFINITY;
  for (int64_t key = 0; key < num_keys; ++key) maximum = std::fmax(maximum, score(key));
  double denominator = 0.0;
  for (int64_t d = 0; d < size; ++d) sums[d] = 0.0;
  for (int64_t key = 0; key < num_keys; ++key) {
    const double weight = std::exp(score(key) - maximum);
    denominator += weight;
    for (int64_t d = 0; d < size; ++d) {
      sums[d] += weight * get(call.tensor(kCachedValueCache), cache + key * size + d);
    }
  }
  for (int64_t d = 0; d < size; ++d) set(call.tensor(kCachedOutput), output + d, sums[d] / denominator);
}

Status forward(const OpCall& call) {
  const TensorView& qkv = call.tensor(kCachedQkv);
  const int64_t queries = qkv.dim(0), heads = qkv.dim(1) * qkv.dim(2), size = qkv.dim(4);
  const int64_t capacity = call.tensor(kCachedKeyCache).dim(2), position = call.integer(kCachedPosition);
  const Scratch sums(static_cast<size_t>(size) * sizeof(double));
  if (sums.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "no scratch memory for the reference attention");
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t cache = head * capacity * size;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t query = (i * heads + head) * 3 * size;
      for (int64_t d = 0; d < size; ++d) {
        const int64_t index = cache + (position + i) * size + d;
        set(call.tensor(kCachedKeyCache), index, get(qkv, query + size + d));
        set(call.tensor(kCachedValueCache), index, get(qkv, query + 2 * size + d));
      }
      attend(call, query, cache, position + i + 1, (i * heads + head) * size, static_cast<double*>(sums.data));
    }
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("attention_cached_forward", forward);

}  // namespace
}  // namespace mtl::reference
