#include "engines/local/reduce.h"

namespace mtl::comm::local {

extern const ReduceTable reduce_table_plain;
extern const ReduceTable reduce_table_avx2;
extern const ReduceTable reduce_table_avx512;

// CMakeLists.txt decides which tables this build contains.
const ReduceTable* const reduce_tables[3] = {
    &reduce_table_plain,
#ifdef MTL_HAS_LOOPS_avx2
    &reduce_table_avx2,
#else
    nullptr,
#endif
#ifdef MTL_HAS_LOOPS_avx512
    &reduce_table_avx512,
#else
    nullptr,
#endif
};

namespace {

int highest_level_of_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? 2 : avx2 ? 1 : 0;
#else
  return 0;
#endif
}

}  // namespace

int best_reduce_level() {
  static const int level = [] {
    int best = highest_level_of_cpu();
    while (reduce_tables[best] == nullptr) --best;  // the plain table always exists
    return best;
  }();
  return level;
}

ReduceFunction reduce_function(DType dtype, Reduction reduction) {
  return reduce_tables[best_reduce_level()]->functions[static_cast<int>(dtype)][static_cast<int>(reduction)];
}

void widen(DType dtype, const void* source, float* target, size_t count) {
  reduce_tables[best_reduce_level()]->widen[dtype == DType::kFloat16](source, target, count);
}

void narrow(DType dtype, const float* source, void* target, size_t count) {
  reduce_tables[best_reduce_level()]->narrow[dtype == DType::kFloat16](source, target, count);
}

}  // namespace mtl::comm::local
