#include "ops/append_to_cache.h"

#include <cstring>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

using Op = AppendToCache;

// Copies the rows of the new positions into the cache, for one group of one sample.
void append(const TensorView& cache, const TensorView& rows, int64_t position, int64_t batch, int64_t group) {
  const size_t element = size_of(rows.dtype), bytes = static_cast<size_t>(rows.dim(3)) * element;
  const char* from = static_cast<const char*>(rows.data);
  char* to = static_cast<char*>(cache.data);
  for (int64_t q = 0; q < rows.dim(0); ++q) {
    const int64_t cached = batch * cache.stride(0) + group * cache.stride(1) + (position + q) * cache.stride(2);
    const int64_t row = q * rows.stride(0) + batch * rows.stride(1) + group * rows.stride(2);
    std::memcpy(to + static_cast<size_t>(cached) * element, from + static_cast<size_t>(row) * element, bytes);
  }
}

Status run(const OpCall& call) {
  const TensorView& key = call.tensor(Op::kKey);
  const int64_t position = call.integer(Op::kPosition), groups = key.dim(2);
  for_each(key.dim(1) * groups, key.size(), [&](int64_t number) {
    append(call.tensor(Op::kKeyCache), key, position, number / groups, number % groups);
    append(call.tensor(Op::kValueCache), call.tensor(Op::kValue), position, number / groups, number % groups);
  });
  return ok_status();
}

MTL_REGISTER_CPU("append_to_cache", run);

}  // namespace
}  // namespace mtl
