#include "ops/append_to_cache.h"

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

using Op = AppendToCache;

void append(const TensorView& cache, const TensorView& rows, int64_t position) {
  for (int64_t q = 0; q < rows.dim(0); ++q) {
    for (int64_t b = 0; b < rows.dim(1); ++b) {
      for (int64_t g = 0; g < rows.dim(2); ++g) {
        for (int64_t d = 0; d < rows.dim(3); ++d) {
          const int64_t to = b * cache.stride(0) + g * cache.stride(1) + (position + q) * cache.stride(2) + d;
          set(cache, to, get(rows, q * rows.stride(0) + b * rows.stride(1) + g * rows.stride(2) + d));
        }
      }
    }
  }
}

Status run(const OpCall& call) {
  append(call.tensor(Op::kKeyCache), call.tensor(Op::kKey), call.integer(Op::kPosition));
  append(call.tensor(Op::kValueCache), call.tensor(Op::kValue), call.integer(Op::kPosition));
  return ok_status();
}

MTL_REGISTER_REFERENCE("append_to_cache", run);

}  // namespace
}  // namespace mtl::reference
