#include "backends/cpu/onednn.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "backends/cpu/onednn_api.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

struct CachedPrimitive {
  dnnl_primitive_t matmul = nullptr;
  dnnl_memory_t left = nullptr, right = nullptr, bias = nullptr, output = nullptr, scratchpad = nullptr;
  // Copies `right` into the library's own layout before the matmul; null where it is read in its stored
  // layout.
  dnnl_primitive_t packing = nullptr;
  dnnl_memory_t packed_right = nullptr;
  MatmulScratch scratch;
};

// A matmul over `problem.columns` columns of a right operand and an output that both have `row_length`
// columns.
struct ColumnSlice {
  MatmulProblem problem;
  int64_t row_length;
};

// Code and scratchpad depend on the number of threads.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int, int, int>;

Key key_of(const ColumnSlice& slice) {
  const MatmulProblem& p = slice.problem;
  const int flags = p.transpose_left | p.transpose_right << 1 | p.accumulate << 2 | (p.bias != nullptr) << 3;
  const int dtypes = static_cast<int>(p.input_dtype) | static_cast<int>(p.output_dtype) << 4 |
                     static_cast<int>(p.bias == nullptr ? DType::kFloat32 : p.bias_dtype) << 8;
  return {p.batch, p.rows, p.columns, slice.row_length, p.inner, flags, dtypes, omp_get_max_threads()};
}

dnnl_data_type_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return dnnl_bf16;
    case DType::kFloat16:
      return dnnl_f16;
    default:
      return dnnl_f32;
  }
}

struct Library {
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  std::map<Key, CachedPrimitive> primitives;
  std::map<Key, MatmulScratch> scratch;  // of matmuls that were described but not created
};

// Primitives and their memory objects are shared by all threads of the process (worker threads may be ranks);
// two concurrent matmuls would only compete for the same cores.
std::mutex mutex;

Status library(Library** result) {
  // Never destroyed: oneDNN's own statics may already be destroyed at exit.
  static Library* instance = new Library();
  if (instance->stream == nullptr) {
    MTL_DNNL("create its CPU engine", dnnl_engine_create(&instance->engine, dnnl_cpu, 0));
    MTL_DNNL("create its stream", dnnl_stream_create(&instance->stream, instance->engine, dnnl_stream_in_order));
  }
  *result = instance;
  return ok_status();
}

// oneDNN reads a large right operand stored [inner, columns] up to twice slower than one in a layout of its
// own choice: the distance between rows maps many of them to the same cache sets (measured with 2.6.3 in
// float32: [768, 3072] takes 1.8 times as long, [2304, 768] 1.3 times; [384, 1536] and odd lengths gain
// nothing). With enough rows of the left operand a copy costs less than it saves. A right operand stored
// [columns, inner] gains nothing either.
constexpr int64_t kFewestRowsToPack = 512;
constexpr int64_t kFewestElementsToPack = int64_t{1} << 20;
constexpr int64_t kCrowdedRowLength = 256;  // and its multiples

// Larger right operands (a vocabulary's) are copied and multiplied in blocks of columns.
constexpr int64_t kMostPackedBytes = int64_t{32} << 20;
constexpr int64_t kColumnMultiple = 64;

bool packs_right(const ColumnSlice& slice) {
  const MatmulProblem& p = slice.problem;
  return p.batch == 1 && !p.transpose_right && p.rows >= kFewestRowsToPack &&
         slice.row_length % kCrowdedRowLength == 0 && p.inner * slice.row_length >= kFewestElementsToPack;
}

// The number of columns per block.
int64_t columns_of_slices(const MatmulProblem& p) {
  if (!packs_right({p, p.columns})) return p.columns;
  const int64_t bytes = p.inner * p.columns * static_cast<int64_t>(size_of(p.input_dtype));
  const int64_t num_slices = (bytes + kMostPackedBytes - 1) / kMostPackedBytes;
  const int64_t columns = (p.columns + num_slices - 1) / num_slices;
  return std::min(p.columns, (columns + kColumnMultiple - 1) / kColumnMultiple * kColumnMultiple);
}

// [batch, rows, columns] where the last two may be stored transposed.
MatrixLayout layout_of(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  MatrixLayout layout{{batch, rows, columns}, {rows * columns, columns, 1}, 3};
  if (transposed) {
    layout.strides[1] = 1;
    layout.strides[2] = rows;
  }
  if (batch == 1) {  // the library has faster paths for two dimensions
    layout = MatrixLayout{{layout.dims[1], layout.dims[2]}, {layout.strides[1], layout.strides[2]}, 2};
  }
  return layout;
}

// A range of columns of [batch, rows, row_length].
MatrixLayout layout_of_columns(int64_t batch, int64_t rows, int64_t columns, int64_t row_length) {
  MatrixLayout layout = layout_of(batch, rows, row_length, false);
  layout.dims[layout.rank - 1] = columns;
  return layout;
}

// The attributes of a matmul: everything but its operands. Freed at the end of the scope, also when the
// library reports an error.
struct Attributes {
  dnnl_primitive_attr_t handle = nullptr;
  dnnl_post_ops_t post_ops = nullptr;

  ~Attributes() {
    if (post_ops != nullptr) dnnl_post_ops_destroy(post_ops);
    if (handle != nullptr) dnnl_primitive_attr_destroy(handle);
  }
  Status create(bool accumulate) {
    MTL_DNNL("create attributes", dnnl_primitive_attr_create(&handle));
    MTL_DNNL("set the scratchpad", dnnl_primitive_attr_set_scratchpad_mode(handle, dnnl_scratchpad_mode_user));
    if (!accumulate) return ok_status();
    MTL_DNNL("create post-ops", dnnl_post_ops_create(&post_ops));
    MTL_RETURN_IF_ERROR(append_sum(post_ops));
    MTL_DNNL("set post-ops", dnnl_primitive_attr_set_post_ops(handle, post_ops));
    return ok_status();
  }
};

// A matmul before its code is generated: oneDNN already knows its layouts and its scratchpad size.
struct Description {
  MatmulDescriptors operands;
  MatrixDescriptor stored_right;
  Attributes attributes;
  dnnl_primitive_desc_t handle = nullptr;

  ~Description() {
    if (handle != nullptr) dnnl_primitive_desc_destroy(handle);
  }

  Status create(Library* lib, const ColumnSlice& slice) {
    const MatmulProblem& p = slice.problem;
    const dnnl_data_type_t input_type = data_type(p.input_dtype);
    const MatrixLayout right = p.transpose_right ? layout_of(p.batch, p.inner, p.columns, true)
                                                 : layout_of_columns(p.batch, p.inner, p.columns, slice.row_length);
    MTL_RETURN_IF_ERROR(stored_right.describe(right, input_type));
    if (packs_right(slice)) {
      MTL_RETURN_IF_ERROR(operands.right.leave_layout_open(right, input_type));
    } else {
      MTL_RETURN_IF_ERROR(operands.right.describe(right, input_type));
    }
    MTL_RETURN_IF_ERROR(operands.left.describe(layout_of(p.batch, p.rows, p.inner, p.transpose_left), input_type));
    MTL_RETURN_IF_ERROR(operands.output.describe(layout_of_columns(p.batch, p.rows, p.columns, slice.row_length),
                                                 data_type(p.output_dtype)));
    if (p.bias != nullptr) {
      MatrixLayout bias = layout_of(1, 1, p.columns, false);
      if (p.batch != 1) bias = MatrixLayout{{1, 1, p.columns}, {p.columns, p.columns, 1}, 3};
      MTL_RETURN_IF_ERROR(operands.bias.describe(bias, data_type(p.bias_dtype)));
    }
    MTL_RETURN_IF_ERROR(attributes.create(p.accumulate));
    return describe_matmul(lib->engine, operands, attributes.handle, &handle);
  }

  MatrixDescriptor::Handle scratchpad() const { return layout_in(handle, dnnl_query_scratchpad_md); }
  MatrixDescriptor::Handle right() const { return layout_in(handle, dnnl_query_weights_md); }
  bool packs() const { return !dnnl_memory_desc_equal(right(), stored_right.get()); }
  MatmulScratch scratch() const {
    return {dnnl_memory_desc_get_size(scratchpad()), packs() ? dnnl_memory_desc_get_size(right()) : 0};
  }
};

Status create_memory(Library* lib, MatrixDescriptor::Handle layout, dnnl_memory_t* memory) {
  MTL_DNNL("create a memory object", dnnl_memory_create(memory, layout, lib->engine, DNNL_MEMORY_NONE));
  return ok_status();
}

Status make_primitives(Library* lib, const ColumnSlice& slice, CachedPrimitive* cached) {
  Description description;
  MTL_RETURN_IF_ERROR(description.create(lib, slice));
  const MatmulDescriptors& operands = description.operands;
  cached->scratch = description.scratch();
  MTL_DNNL("create a primitive", dnnl_primitive_create(&cached->matmul, description.handle));
  MTL_RETURN_IF_ERROR(create_memory(lib, operands.left.get(), &cached->left));
  MTL_RETURN_IF_ERROR(create_memory(lib, description.stored_right.get(), &cached->right));
  MTL_RETURN_IF_ERROR(create_memory(lib, operands.output.get(), &cached->output));
  MTL_RETURN_IF_ERROR(create_memory(lib, description.scratchpad(), &cached->scratchpad));
  if (operands.bias.get() != nullptr) MTL_RETURN_IF_ERROR(create_memory(lib, operands.bias.get(), &cached->bias));
  if (!description.packs()) return ok_status();
  MTL_RETURN_IF_ERROR(create_memory(lib, description.right(), &cached->packed_right));
  return create_reorder(lib->engine, description.stored_right.get(), description.right(), &cached->packing);
}

Status find_primitives(Library* lib, const ColumnSlice& slice, const CachedPrimitive** cached) {
  auto found = lib->primitives.find(key_of(slice));
  if (found == lib->primitives.end()) {
    CachedPrimitive made;  // inserted into the cache only when complete
    MTL_RETURN_IF_ERROR(make_primitives(lib, slice, &made));
    found = lib->primitives.emplace(key_of(slice), made).first;
  }
  *cached = &found->second;
  return ok_status();
}

Status set_data(dnnl_memory_t memory, const void* data) {
  MTL_DNNL("bind memory", dnnl_memory_set_data_handle(memory, const_cast<void*>(data)));
  return ok_status();
}

Status pack_right(Library* lib, const CachedPrimitive& cached, void* packed) {
  MTL_RETURN_IF_ERROR(set_data(cached.packed_right, packed));
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, cached.right}, {DNNL_ARG_TO, cached.packed_right}};
  MTL_DNNL("copy a matrix", dnnl_primitive_execute(cached.packing, lib->stream, 2, arguments));
  return ok_status();
}

Status run_slice(Library* lib, const ColumnSlice& slice) {
  const MatmulProblem& p = slice.problem;
  const CachedPrimitive* found;
  MTL_RETURN_IF_ERROR(find_primitives(lib, slice, &found));
  const CachedPrimitive& cached = *found;
  const Scratch scratchpad(cached.scratch.scratchpad), packed(cached.scratch.packed_right);
  if (scratchpad.data == nullptr || packed.data == nullptr) {
    return error_status("MTL_OUT_OF_MEMORY", "no %zu bytes for a matmul's scratch memory",
                        cached.scratch.scratchpad + cached.scratch.packed_right);
  }
  MTL_RETURN_IF_ERROR(set_data(cached.left, p.left));
  MTL_RETURN_IF_ERROR(set_data(cached.right, p.right));
  MTL_RETURN_IF_ERROR(set_data(cached.output, p.output));
  MTL_RETURN_IF_ERROR(set_data(cached.scratchpad, scratchpad.data));
  if (cached.packing != nullptr) MTL_RETURN_IF_ERROR(pack_right(lib, cached, packed.data));
  dnnl_exec_arg_t arguments[5] = {
      {DNNL_ARG_SRC, cached.left},
      {DNNL_ARG_WEIGHTS, cached.packing == nullptr ? cached.right : cached.packed_right},
      {DNNL_ARG_DST, cached.output},
      {DNNL_ARG_SCRATCHPAD, cached.scratchpad}};
  int num_arguments = 4;
  if (p.bias != nullptr) {
    MTL_RETURN_IF_ERROR(set_data(cached.bias, p.bias));
    arguments[num_arguments++] = {DNNL_ARG_BIAS, cached.bias};
  }
  MTL_DNNL("multiply", dnnl_primitive_execute(cached.matmul, lib->stream, num_arguments, arguments));
  MTL_DNNL("finish", dnnl_stream_wait(lib->stream));
  return ok_status();
}

const void* columns_from(const void* data, int64_t column, DType dtype) {
  if (data == nullptr) return nullptr;
  return static_cast<const char*>(data) + column * static_cast<int64_t>(size_of(dtype));
}

ColumnSlice slice_of(const MatmulProblem& p, int64_t column, int64_t columns) {
  ColumnSlice slice{p, p.columns};
  if (columns == p.columns) return slice;
  slice.problem.columns = columns;
  slice.problem.output = const_cast<void*>(columns_from(p.output, column, p.output_dtype));
  slice.problem.right = columns_from(p.right, column, p.input_dtype);
  slice.problem.bias = columns_from(p.bias, column, p.bias_dtype);
  return slice;
}

}  // namespace

Status onednn_matmul(const MatmulProblem& p) {
  const std::lock_guard<std::mutex> lock(mutex);
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  const int64_t width = columns_of_slices(p);
  for (int64_t column = 0; column < p.columns; column += width) {
    MTL_RETURN_IF_ERROR(run_slice(lib, slice_of(p, column, std::min(width, p.columns - column))));
  }
  return ok_status();
}

Status onednn_scratch(const MatmulProblem& p, MatmulScratch* scratch) {
  const std::lock_guard<std::mutex> lock(mutex);
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  const ColumnSlice widest = slice_of(p, 0, columns_of_slices(p));
  auto found = lib->scratch.find(key_of(widest));
  if (found == lib->scratch.end()) {
    Description description;
    MTL_RETURN_IF_ERROR(description.create(lib, widest));
    found = lib->scratch.emplace(key_of(widest), description.scratch()).first;
  }
  *scratch = found->second;
  return ok_status();
}

const char* onednn_version() {
  static char text[32] = "";
  if (text[0] == '\0') {
    const dnnl_version_t* version = dnnl_version();
    std::snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
  }
  return text;
}

}  // namespace mtl
