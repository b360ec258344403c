#include "engines/local/reduce.h"

#include <iterator>

namespace mtl::comm::local {

// CMakeLists.txt generates reduce_sets.inc, with a row for each instruction set that this build contains.
#define MTL_REDUCE_SET(name, is_supported) extern const ReduceTable reduce_table_##name;
#include "reduce_sets.inc"
#undef MTL_REDUCE_SET

namespace {

#define MTL_REDUCE_SET(name, is_supported) {#name, &reduce_table_##name, [] { return is_supported; }},
constexpr ReduceSet kSets[] = {
#include "reduce_sets.inc"
};
#undef MTL_REDUCE_SET

}  // namespace

ReduceSets reduce_sets() { return {std::begin(kSets), std::end(kSets)}; }

const ReduceTable& best_reduce_table() {
  static const ReduceTable* const best = [] {
    const ReduceSet* set = reduce_sets().begin();
    while (set + 1 != reduce_sets().end() && !set->is_supported()) ++set;
    return set->table;
  }();
  return *best;
}

ReduceFunction reduce_function(DType dtype, Reduction reduction) {
  return best_reduce_table().functions[static_cast<int>(dtype)][static_cast<int>(reduction)];
}

void widen(DType dtype, const void* source, float* target, size_t count) {
  best_reduce_table().widen[dtype == DType::kFloat16](source, target, count);
}

void narrow(DType dtype, const float* source, void* target, size_t count) {
  best_reduce_table().narrow[dtype == DType::kFloat16](source, target, count);
}

}  // namespace mtl::comm::local
