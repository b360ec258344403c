#include "backends/cpu/onednn.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "backends/cpu/onednn_api.h"
#include "backends/cpu/signals_blocked.h"
#include "backends/cpu/threads.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

// The sizes in bytes of the two blocks of scratch memory that a matmul needs.
struct MatmulScratch {
  size_t scratchpad = 0;
  size_t packed_right = 0;  // the right operand in the library's own layout
};

struct CachedPrimitive {
  dnnl_primitive_t matmul = nullptr;
  dnnl_memory_t left = nullptr, right = nullptr, bias = nullptr, output = nullptr, scratchpad = nullptr;
  // The primitive that copies `right` to the library's layout before the matmul; null if the matmul reads the
  // stored layout.
  dnnl_primitive_t packing = nullptr;
  dnnl_memory_t packed_right = nullptr;
  MatmulScratch scratch;
};

// The key of a cached matmul. It includes the number of threads, on which the generated code and the
// scratchpad depend.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int, int, int>;

Key key_of(const MatmulProblem& p) {
  const int flags = p.transpose_left | p.transpose_right << 1 | p.accumulate << 2 | (p.bias != nullptr) << 3;
  const int dtypes = static_cast<int>(p.input_dtype) | static_cast<int>(p.output_dtype) << 4 |
                     static_cast<int>(p.bias == nullptr ? DType::kFloat32 : p.bias_dtype) << 8;
  return {p.batch, p.rows, p.columns, p.inner, p.left_row_length, p.right_row_length, p.output_row_length,
          flags, dtypes, num_threads()};
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
  std::map<Key, MatmulScratch> scratch;  // of matmuls that are described but not created yet
};

// All threads of the process (worker threads may be ranks) share the primitives and their memory objects. Two
// concurrent matmuls would only compete for the same cores.
std::mutex mutex;

Status library(Library** result) {
  // the object is never destroyed, because oneDNN's own static objects may be destroyed before it at exit
  static Library* instance = new Library();
  if (instance->stream == nullptr) {
    MTL_DNNL("create its CPU engine", dnnl_engine_create(&instance->engine, dnnl_cpu, 0));
    MTL_DNNL("create its stream", dnnl_stream_create(&instance->stream, instance->engine, dnnl_stream_in_order));
  }
  *result = instance;
  return ok_status();
}

// If a large right operand is stored as [inner, columns], oneDNN takes up to twice as long to read it as in
// oneDNN's own layout, because the distance between rows maps many rows to the same cache sets. (Measured
// with 2.6.3 in float32: [768, 3072] takes 1.8 times as long, [2304, 768] 1.3 times; [384, 1536] and odd
// lengths gain nothing.) If the left operand has enough rows, a copy costs less than it saves. If the right
// operand is stored as [columns, inner], a copy gains nothing.
constexpr int64_t kFewestRowsToPack = 512;
constexpr int64_t kFewestElementsToPack = int64_t{1} << 20;
constexpr int64_t kCrowdedRowLength = 256;  // and its multiples

// A larger right operand, such as the weight of a vocabulary, is copied and multiplied in blocks of about
// this size.
constexpr int64_t kMostPackedBytes = int64_t{12} << 20;
constexpr int64_t kPartMultiple = 64;

bool packs_right(const MatmulProblem& p) {
  return p.batch == 1 && !p.transpose_right && p.rows >= kFewestRowsToPack &&
         p.right_row_length % kCrowdedRowLength == 0 && p.inner * p.columns >= kFewestElementsToPack;
}

// Each block's number of columns and length of the inner dimension. The last block may be smaller.
struct PartSize {
  int64_t columns, inner;
};

int64_t length_of_parts(int64_t length, int64_t num_parts) {
  const int64_t shortest = (length + num_parts - 1) / num_parts;
  return std::min(length, (shortest + kPartMultiple - 1) / kPartMultiple * kPartMultiple);
}

// Returns the size of the blocks. If the columns are split, each block reads the left operand again. If the
// inner dimension is split, each block reads and writes the output again; this is done only if the output is
// float32, because then its sums are float32 with and without the split.
PartSize size_of_parts(const MatmulProblem& p) {
  if (!packs_right(p)) return {p.columns, p.inner};
  const int64_t bytes = p.inner * p.columns * static_cast<int64_t>(size_of(p.input_dtype));
  const int64_t num_parts = (bytes + kMostPackedBytes - 1) / kMostPackedBytes;
  if (p.output_dtype == DType::kFloat32 && p.inner > 2 * p.columns) {
    return {p.columns, length_of_parts(p.inner, num_parts)};
  }
  return {length_of_parts(p.columns, num_parts), p.inner};
}

// Returns the layout of matrices [batch, rows, columns]. The last two dimensions may be stored transposed.
MatrixLayout layout_of(int64_t batch, int64_t rows, int64_t columns, int64_t row_length, bool transposed) {
  MatrixLayout layout{{batch, rows, columns}, {rows * row_length, row_length, 1}, 3};
  if (transposed) layout = MatrixLayout{{batch, rows, columns}, {columns * row_length, 1, row_length}, 3};
  if (batch == 1) {  // the library has faster paths for two dimensions
    layout = MatrixLayout{{layout.dims[1], layout.dims[2]}, {layout.strides[1], layout.strides[2]}, 2};
  }
  return layout;
}

// A matmul's attributes, without its operands. The destructor frees them, even after the library has reported
// an error.
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

// A matmul for which oneDNN has not yet generated code. The layouts and the size of the scratchpad are
// already known.
struct Description {
  MatmulDescriptors operands;
  MatrixDescriptor stored_right;
  Attributes attributes;
  dnnl_primitive_desc_t handle = nullptr;

  ~Description() {
    if (handle != nullptr) dnnl_primitive_desc_destroy(handle);
  }

  Status create(Library* lib, const MatmulProblem& p) {
    const dnnl_data_type_t input_type = data_type(p.input_dtype);
    const MatrixLayout left = layout_of(p.batch, p.rows, p.inner, p.left_row_length, p.transpose_left);
    const MatrixLayout right = layout_of(p.batch, p.inner, p.columns, p.right_row_length, p.transpose_right);
    const MatrixLayout output = layout_of(p.batch, p.rows, p.columns, p.output_row_length, false);
    MTL_RETURN_IF_ERROR(stored_right.describe(right, input_type));
    if (packs_right(p)) {
      MTL_RETURN_IF_ERROR(operands.right.leave_layout_open(right, input_type));
    } else {
      MTL_RETURN_IF_ERROR(operands.right.describe(right, input_type));
    }
    MTL_RETURN_IF_ERROR(operands.left.describe(left, input_type));
    MTL_RETURN_IF_ERROR(operands.output.describe(output, data_type(p.output_dtype)));
    if (p.bias != nullptr) {
      MatrixLayout bias = layout_of(1, 1, p.columns, p.columns, false);
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

Status make_primitives(Library* lib, const MatmulProblem& part, CachedPrimitive* cached) {
  Description description;
  MTL_RETURN_IF_ERROR(description.create(lib, part));
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

Status find_primitives(Library* lib, const MatmulProblem& part, const CachedPrimitive** cached) {
  auto found = lib->primitives.find(key_of(part));
  if (found == lib->primitives.end()) {
    CachedPrimitive made;  // inserted into the cache only when complete
    MTL_RETURN_IF_ERROR(make_primitives(lib, part, &made));
    found = lib->primitives.emplace(key_of(part), made).first;
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

Status run_part(Library* lib, const MatmulProblem& p) {
  const CachedPrimitive* found;
  MTL_RETURN_IF_ERROR(find_primitives(lib, p, &found));
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

const void* element(const void* data, int64_t index, DType dtype) {
  if (data == nullptr) return nullptr;
  return static_cast<const char*>(data) + index * static_cast<int64_t>(size_of(dtype));
}

// Returns the block that begins at the given column and index of the inner dimension. The first block along
// the inner dimension adds the bias, and each later block adds its result to the output.
MatmulProblem part_of(const MatmulProblem& p, const PartSize& size, int64_t column, int64_t inner) {
  MatmulProblem part = p;
  part.columns = std::min(size.columns, p.columns - column);
  part.inner = std::min(size.inner, p.inner - inner);
  part.output = const_cast<void*>(element(p.output, column, p.output_dtype));
  part.left = element(p.left, p.transpose_left ? inner * p.left_row_length : inner, p.input_dtype);
  part.right = element(p.right, p.transpose_right ? column * p.right_row_length + inner
                                                  : inner * p.right_row_length + column,
                       p.input_dtype);
  part.bias = inner == 0 ? element(p.bias, column, p.bias_dtype) : nullptr;
  part.accumulate = p.accumulate || inner > 0;
  return part;
}

template <typename Visit>
Status for_parts(const MatmulProblem& p, Visit visit) {
  const PartSize size = size_of_parts(p);
  for (int64_t column = 0; column < p.columns; column += size.columns) {
    for (int64_t inner = 0; inner < p.inner; inner += size.inner) {
      MTL_RETURN_IF_ERROR(visit(part_of(p, size, column, inner)));
    }
  }
  return ok_status();
}

Status scratch_of_part(Library* lib, const MatmulProblem& part, MatmulScratch* scratch) {
  auto found = lib->scratch.find(key_of(part));
  if (found == lib->scratch.end()) {
    Description description;
    MTL_RETURN_IF_ERROR(description.create(lib, part));
    found = lib->scratch.emplace(key_of(part), description.scratch()).first;
  }
  *scratch = found->second;
  return ok_status();
}

}  // namespace

Status onednn_matmul(const MatmulProblem& p) {
  const std::lock_guard<std::mutex> lock(mutex);
  const SignalsBlocked signals_blocked;
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  return for_parts(p, [&](const MatmulProblem& part) { return run_part(lib, part); });
}

Status add_onednn_scratch(const MatmulProblem& p, ScratchBlocks* blocks) {
  const std::lock_guard<std::mutex> lock(mutex);
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  MatmulScratch most;
  MTL_RETURN_IF_ERROR(for_parts(p, [&](const MatmulProblem& part) {
    MatmulScratch scratch;
    MTL_RETURN_IF_ERROR(scratch_of_part(lib, part, &scratch));
    most.scratchpad = std::max(most.scratchpad, scratch.scratchpad);
    most.packed_right = std::max(most.packed_right, scratch.packed_right);
    return ok_status();
  }));
  blocks->add(static_cast<int64_t>(most.scratchpad));
  blocks->add(static_cast<int64_t>(most.packed_right));
  return ok_status();
}

bool onednn_is_built() { return true; }

const char* onednn_version() {
  static char text[32] = "";
  if (text[0] == '\0') {
    const dnnl_version_t* version = dnnl_version();
    std::snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
  }
  return text;
}

}  // namespace mtl
