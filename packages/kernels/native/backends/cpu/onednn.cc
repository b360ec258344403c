#include "backends/cpu/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "core/caching_allocator.h"

namespace mtl {
namespace {

struct CachedPrimitive {
  dnnl_primitive_t primitive = nullptr;
  dnnl_memory_t left = nullptr, right = nullptr, bias = nullptr, output = nullptr, scratchpad = nullptr;
  size_t scratchpad_bytes = 0;
};

// Code and scratchpad are made for a number of threads.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int, int, int>;

Key key_of(const MatmulProblem& p) {
  const int flags = p.transpose_left | p.transpose_right << 1 | p.accumulate << 2 | (p.bias != nullptr) << 3;
  const int dtypes = static_cast<int>(p.input_dtype) | static_cast<int>(p.output_dtype) << 4 |
                     static_cast<int>(p.bias == nullptr ? DType::kFloat32 : p.bias_dtype) << 8;
  return {p.batch, p.rows, p.columns, p.inner, flags, dtypes, omp_get_max_threads()};
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
  std::map<Key, size_t> scratchpads;  // of matmuls that were only described
};

// Primitives and their memory objects are shared by all threads of the process (worker threads may be ranks);
// two matmuls at once would only compete for the same cores.
std::mutex mutex;

Status failed(const char* what, dnnl_status_t status) {
  return error_status("MTL_ONEDNN", "oneDNN %s failed to %s (status %d)", onednn_version(), what,
                      static_cast<int>(status));
}

#define MTL_DNNL(what, call)                                        \
  do {                                                              \
    const dnnl_status_t dnnl_status_ = (call);                      \
    if (dnnl_status_ != dnnl_success) return failed(what, dnnl_status_); \
  } while (0)

Status library(Library** result) {
  // Never destroyed: oneDNN's own statics may be gone before ours.
  static Library* instance = new Library();
  if (instance->stream == nullptr) {
    MTL_DNNL("create its CPU engine", dnnl_engine_create(&instance->engine, dnnl_cpu, 0));
    MTL_DNNL("create its stream", dnnl_stream_create(&instance->stream, instance->engine, dnnl_stream_in_order));
  }
  *result = instance;
  return ok_status();
}

// A descriptor of [batch, rows, columns] with the last two possibly stored the other way round.
struct Layout {
  dnnl_dims_t dims, strides;
  int rank;
};

Layout layout_of(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  Layout layout{{batch, rows, columns}, {rows * columns, columns, 1}, 3};
  if (transposed) {
    layout.strides[1] = 1;
    layout.strides[2] = rows;
  }
  if (batch == 1) {  // two dimensions take faster paths inside the library
    layout = Layout{{layout.dims[1], layout.dims[2]}, {layout.strides[1], layout.strides[2]}, 2};
  }
  return layout;
}

#if DNNL_VERSION_MAJOR >= 3
using Descriptor = const_dnnl_memory_desc_t;

Status make_descriptor(const Layout& layout, dnnl_data_type_t type, dnnl_memory_desc_t* out) {
  MTL_DNNL("describe a matrix",
           dnnl_memory_desc_create_with_strides(out, layout.rank, layout.dims, type, layout.strides));
  return ok_status();
}
#define MTL_DESCRIPTOR(descriptor) (descriptor)
#else
Status make_descriptor(const Layout& layout, dnnl_data_type_t type, dnnl_memory_desc_t* out) {
  MTL_DNNL("describe a matrix", dnnl_memory_desc_init_by_strides(out, layout.rank, layout.dims, type, layout.strides));
  return ok_status();
}
#define MTL_DESCRIPTOR(descriptor) (&(descriptor))
#endif

// What a matmul has in addition to its operands. Freed at the end of a scope, also where the library refuses
// something.
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
#if DNNL_VERSION_MAJOR >= 3
    MTL_DNNL("append a sum", dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef));
#else
    MTL_DNNL("append a sum", dnnl_post_ops_append_sum(post_ops, 1.0f));
#endif
    MTL_DNNL("set post-ops", dnnl_primitive_attr_set_post_ops(handle, post_ops));
    return ok_status();
  }
};

// A matmul before any code is made for it: oneDNN knows its scratchpad then.
struct Description {
  dnnl_memory_desc_t left = {}, right = {}, bias = {}, output = {};
  Attributes attributes;
  dnnl_primitive_desc_t handle = nullptr;

  ~Description() {
    if (handle != nullptr) dnnl_primitive_desc_destroy(handle);
#if DNNL_VERSION_MAJOR >= 3
    for (dnnl_memory_desc_t each : {left, right, bias, output}) {
      if (each != nullptr) dnnl_memory_desc_destroy(each);
    }
#endif
  }

  Status create(Library* lib, const MatmulProblem& p) {
    MTL_RETURN_IF_ERROR(attributes.create(p.accumulate));
    const dnnl_data_type_t input_type = data_type(p.input_dtype);
    MTL_RETURN_IF_ERROR(make_descriptor(layout_of(p.batch, p.rows, p.inner, p.transpose_left), input_type, &left));
    MTL_RETURN_IF_ERROR(make_descriptor(layout_of(p.batch, p.inner, p.columns, p.transpose_right), input_type, &right));
    MTL_RETURN_IF_ERROR(
        make_descriptor(layout_of(p.batch, p.rows, p.columns, false), data_type(p.output_dtype), &output));
    Layout bias_layout = layout_of(1, 1, p.columns, false);
    if (p.batch != 1) bias_layout = Layout{{1, 1, p.columns}, {p.columns, p.columns, 1}, 3};
    if (p.bias != nullptr) MTL_RETURN_IF_ERROR(make_descriptor(bias_layout, data_type(p.bias_dtype), &bias));
    const char* step = "describe a matmul";
#if DNNL_VERSION_MAJOR >= 3
    MTL_DNNL(step, dnnl_matmul_primitive_desc_create(&handle, lib->engine, left, right, p.bias == nullptr ? nullptr : bias,
                                                     output, attributes.handle));
#else
    dnnl_matmul_desc_t operation;
    MTL_DNNL(step, dnnl_matmul_desc_init(&operation, &left, &right, p.bias == nullptr ? nullptr : &bias, &output));
    MTL_DNNL(step, dnnl_primitive_desc_create(&handle, &operation, attributes.handle, lib->engine, nullptr));
#endif
    return ok_status();
  }

  auto scratchpad() const { return dnnl_primitive_desc_query_md(handle, dnnl_query_scratchpad_md, 0); }
  size_t scratchpad_bytes() const { return dnnl_memory_desc_get_size(scratchpad()); }
};

Status make_primitive(Library* lib, const MatmulProblem& p, CachedPrimitive* cached) {
  Description description;
  MTL_RETURN_IF_ERROR(description.create(lib, p));
  cached->scratchpad_bytes = description.scratchpad_bytes();
  MTL_DNNL("create a primitive", dnnl_primitive_create(&cached->primitive, description.handle));

  const char* memory = "create a memory object";
  MTL_DNNL(memory, dnnl_memory_create(&cached->left, MTL_DESCRIPTOR(description.left), lib->engine, DNNL_MEMORY_NONE));
  MTL_DNNL(memory, dnnl_memory_create(&cached->right, MTL_DESCRIPTOR(description.right), lib->engine, DNNL_MEMORY_NONE));
  MTL_DNNL(memory, dnnl_memory_create(&cached->output, MTL_DESCRIPTOR(description.output), lib->engine, DNNL_MEMORY_NONE));
  MTL_DNNL(memory, dnnl_memory_create(&cached->scratchpad, description.scratchpad(), lib->engine, DNNL_MEMORY_NONE));
  if (p.bias != nullptr) {
    MTL_DNNL(memory, dnnl_memory_create(&cached->bias, MTL_DESCRIPTOR(description.bias), lib->engine, DNNL_MEMORY_NONE));
  }
  return ok_status();
}

Status set_data(dnnl_memory_t memory, const void* data) {
  MTL_DNNL("bind memory", dnnl_memory_set_data_handle(memory, const_cast<void*>(data)));
  return ok_status();
}

}  // namespace

Status onednn_matmul(const MatmulProblem& p) {
  const std::lock_guard<std::mutex> lock(mutex);
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  auto found = lib->primitives.find(key_of(p));
  if (found == lib->primitives.end()) {
    CachedPrimitive made;  // enters the cache whole or not at all
    MTL_RETURN_IF_ERROR(make_primitive(lib, p, &made));
    found = lib->primitives.emplace(key_of(p), made).first;
  }
  const CachedPrimitive& cached = found->second;

  const Scratch scratchpad(cached.scratchpad_bytes);
  if (scratchpad.data == nullptr) {
    return error_status("MTL_OUT_OF_MEMORY", "no %zu bytes for a matmul's scratchpad", cached.scratchpad_bytes);
  }
  MTL_RETURN_IF_ERROR(set_data(cached.left, p.left));
  MTL_RETURN_IF_ERROR(set_data(cached.right, p.right));
  MTL_RETURN_IF_ERROR(set_data(cached.output, p.output));
  MTL_RETURN_IF_ERROR(set_data(cached.scratchpad, scratchpad.data));
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, cached.left},
                                  {DNNL_ARG_WEIGHTS, cached.right},
                                  {DNNL_ARG_DST, cached.output},
                                  {DNNL_ARG_SCRATCHPAD, cached.scratchpad}};
  int num_arguments = 4;
  if (p.bias != nullptr) {
    MTL_RETURN_IF_ERROR(set_data(cached.bias, p.bias));
    arguments[num_arguments++] = {DNNL_ARG_BIAS, cached.bias};
  }
  MTL_DNNL("multiply", dnnl_primitive_execute(cached.primitive, lib->stream, num_arguments, arguments));
  MTL_DNNL("finish", dnnl_stream_wait(lib->stream));
  return ok_status();
}

Status onednn_scratchpad(const MatmulProblem& p, size_t* bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  Library* lib = nullptr;
  MTL_RETURN_IF_ERROR(library(&lib));
  auto found = lib->scratchpads.find(key_of(p));
  if (found == lib->scratchpads.end()) {
    Description description;
    MTL_RETURN_IF_ERROR(description.create(lib, p));
    found = lib->scratchpads.emplace(key_of(p), description.scratchpad_bytes()).first;
  }
  *bytes = found->second;
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
