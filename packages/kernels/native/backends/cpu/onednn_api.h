// Provides a single interface to versions 2 and 3 of oneDNN's C API.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "core/status.h"

namespace mtl {

Status onednn_error(const char* what, dnnl_status_t status);

#define MTL_DNNL(what, call)                                                     \
  do {                                                                           \
    const dnnl_status_t dnnl_status_ = (call);                                   \
    if (dnnl_status_ != dnnl_success) return onednn_error(what, dnnl_status_); \
  } while (0)

// The dimensions of a matrix or of a batch of matrices, and the strides of their elements.
struct MatrixLayout {
  dnnl_dims_t dims, strides;
  int rank;
};

// A memory descriptor of the library.
class MatrixDescriptor {
 public:
#if DNNL_VERSION_MAJOR >= 3
  using Handle = const_dnnl_memory_desc_t;
#else
  using Handle = const dnnl_memory_desc_t*;
#endif
  MatrixDescriptor() = default;
  ~MatrixDescriptor();
  MatrixDescriptor(const MatrixDescriptor&) = delete;
  MatrixDescriptor& operator=(const MatrixDescriptor&) = delete;

  Status describe(const MatrixLayout& layout, dnnl_data_type_t type);
  // Describes a matrix with the dimensions in `layout`, but lets the library choose the strides for the
  // primitive.
  Status leave_layout_open(const MatrixLayout& layout, dnnl_data_type_t type);
  // Returns null before the matrix is described.
  Handle get() const;

 private:
  dnnl_memory_desc_t descriptor_{};
  bool described_ = false;
};

struct MatmulDescriptors {
  MatrixDescriptor left, right, bias, output;  // bias: not described if absent
};

Status describe_matmul(dnnl_engine_t engine, const MatmulDescriptors& descriptors,
                       const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t* description);

// Makes the matmul add its result to the old output.
Status append_sum(dnnl_post_ops_t post_ops);

// Creates a primitive that copies a matrix from one layout to another.
Status create_reorder(dnnl_engine_t engine, MatrixDescriptor::Handle from, MatrixDescriptor::Handle to,
                      dnnl_primitive_t* reorder);

// Returns the layout in which a primitive reads or writes an operand. The layout is valid as long as
// `description`.
MatrixDescriptor::Handle layout_in(const_dnnl_primitive_desc_t description, dnnl_query_t query);

}  // namespace mtl
