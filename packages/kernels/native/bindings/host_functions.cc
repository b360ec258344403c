// Exports transpose, which processes JavaScript arrays that do not belong to a tensor.
#include "backends/cpu/transpose.h"
#include "bindings/convert.h"

namespace mtl::bindings {
namespace {

// Reads an optional Int32Array that contains an order of `count` indices. If the argument is invalid, leaves
// a pending exception and returns false.
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

bool is_aligned(const uint8_t* data, int element_bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element_bytes) == 0;
}

// Arguments: (target, source, the source's number of rows, its number of columns, bytes per element, order of
// rows or undefined, order of columns or undefined)
void transpose_array(const Napi::CallbackInfo& info) {
  uint8_t *target, *source;
  size_t target_bytes, source_bytes;
  double rows, columns, size;
  if (!read_bytes(info, 0, &target, &target_bytes) || !read_bytes(info, 1, &source, &source_bytes)) return;
  if (!read_number(info, 2, &rows) || !read_number(info, 3, &columns) || !read_number(info, 4, &size)) return;
  const bool is_size = size == 1 || size == 2 || size == 4 || size == 8;
  if (!is_size || !(rows >= 0 && columns >= 0) || target_bytes != source_bytes ||
      rows * columns * size != static_cast<double>(source_bytes)) {
    throw_status(info.Env(), error_status("MTL_SHAPE", "%zu and %zu bytes for a matrix [%g, %g] of elements of %g bytes",
                                          target_bytes, source_bytes, rows, columns, size));
    return;
  }
  const int element_bytes = static_cast<int>(size);
  if (!is_aligned(target, element_bytes) || !is_aligned(source, element_bytes)) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "a matrix of elements of %d bytes at another boundary", element_bytes));
    return;
  }
  TransposedOrder order;
  if (!read_order(info, 5, static_cast<int64_t>(rows), &order.rows)) return;
  if (!read_order(info, 6, static_cast<int64_t>(columns), &order.columns)) return;
  transpose(target, source, static_cast<int64_t>(rows), static_cast<int64_t>(columns), element_bytes, order);
}

}  // namespace

void register_host_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("transpose", Napi::Function::New(env, transpose_array));
}

}  // namespace mtl::bindings
