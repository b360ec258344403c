// transpose: work on arrays of JavaScript that belong to no tensor.
#include "backends/cpu/transpose.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

// Reads an optional Int32Array with an order of `count` numbers; returns false with a pending exception if it
// is none.
bool read_order(const Napi::CallbackInfo& info, size_t index, int64_t count, const int32_t** order) {
  *order = nullptr;
  if (info.Length() <= index || info[index].IsUndefined()) return true;
  uint8_t* data;
  size_t bytes;
  if (!read_bytes(info, index, &data, &bytes)) return false;
  *order = reinterpret_cast<const int32_t*>(data);
  bool in_range = bytes == static_cast<size_t>(count) * sizeof(int32_t);
  for (int64_t i = 0; in_range && i < count; ++i) in_range = (*order)[i] >= 0 && (*order)[i] < count;
  if (in_range) return true;
  throw_status(info.Env(), error_status("MTL_INDEX", "an order of %lld rows or columns has others, expected numbers below it",
                                        static_cast<long long>(count)));
  return false;
}

// (target, source, number of rows and of columns of the source, order of rows or undefined, order of columns
// or undefined)
void transpose_floats(const Napi::CallbackInfo& info) {
  uint8_t *target, *source;
  size_t target_bytes, source_bytes;
  double rows, columns;
  if (!read_bytes(info, 0, &target, &target_bytes) || !read_bytes(info, 1, &source, &source_bytes)) return;
  if (!read_number(info, 2, &rows) || !read_number(info, 3, &columns)) return;
  if (!(rows >= 0 && columns >= 0) || target_bytes != source_bytes ||
      rows * columns * sizeof(uint32_t) != static_cast<double>(source_bytes)) {
    throw_status(info.Env(), error_status("MTL_SHAPE", "%zu and %zu bytes for a matrix [%g, %g] of 32-bit values", target_bytes,
                                          source_bytes, rows, columns));
    return;
  }
  TransposedOrder order;
  if (!read_order(info, 4, static_cast<int64_t>(rows), &order.rows)) return;
  if (!read_order(info, 5, static_cast<int64_t>(columns), &order.columns)) return;
  transpose(reinterpret_cast<uint32_t*>(target), reinterpret_cast<const uint32_t*>(source), static_cast<int64_t>(rows),
            static_cast<int64_t>(columns), order);
}

}  // namespace

void register_host_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("transpose", Napi::Function::New(env, transpose_floats));
}

}  // namespace mtl::bindings
