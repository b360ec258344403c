#include "backends/cpu/onednn_api.h"

#include "backends/cpu/onednn.h"

namespace mtl {

Status onednn_error(const char* what, dnnl_status_t status) {
  return error_status("MTL_ONEDNN", "oneDNN %s failed to %s (status %d)", onednn_version(), what,
                      static_cast<int>(status));
}

MatrixDescriptor::Handle layout_in(const_dnnl_primitive_desc_t description, dnnl_query_t query) {
  return dnnl_primitive_desc_query_md(description, query, 0);
}

#if DNNL_VERSION_MAJOR >= 3

MatrixDescriptor::~MatrixDescriptor() {
  if (described_) dnnl_memory_desc_destroy(descriptor_);
}

Status MatrixDescriptor::describe(const MatrixLayout& layout, dnnl_data_type_t type) {
  MTL_DNNL("describe a matrix", dnnl_memory_desc_create_with_strides(&descriptor_, layout.rank, layout.dims, type,
                                                                     layout.strides));
  described_ = true;
  return ok_status();
}

Status MatrixDescriptor::leave_layout_open(const MatrixLayout& layout, dnnl_data_type_t type) {
  MTL_DNNL("describe a matrix", dnnl_memory_desc_create_with_tag(&descriptor_, layout.rank, layout.dims, type,
                                                                 dnnl_format_tag_any));
  described_ = true;
  return ok_status();
}

MatrixDescriptor::Handle MatrixDescriptor::get() const { return described_ ? descriptor_ : nullptr; }

Status describe_matmul(dnnl_engine_t engine, const MatmulDescriptors& descriptors,
                       const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t* description) {
  MTL_DNNL("describe a matmul",
           dnnl_matmul_primitive_desc_create(description, engine, descriptors.left.get(), descriptors.right.get(),
                                             descriptors.bias.get(), descriptors.output.get(), attributes));
  return ok_status();
}

Status append_sum(dnnl_post_ops_t post_ops) {
  MTL_DNNL("append a sum", dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef));
  return ok_status();
}

#else

MatrixDescriptor::~MatrixDescriptor() = default;

Status MatrixDescriptor::describe(const MatrixLayout& layout, dnnl_data_type_t type) {
  MTL_DNNL("describe a matrix",
           dnnl_memory_desc_init_by_strides(&descriptor_, layout.rank, layout.dims, type, layout.strides));
  described_ = true;
  return ok_status();
}

Status MatrixDescriptor::leave_layout_open(const MatrixLayout& layout, dnnl_data_type_t type) {
  MTL_DNNL("describe a matrix",
           dnnl_memory_desc_init_by_tag(&descriptor_, layout.rank, layout.dims, type, dnnl_format_tag_any));
  described_ = true;
  return ok_status();
}

MatrixDescriptor::Handle MatrixDescriptor::get() const { return described_ ? &descriptor_ : nullptr; }

Status describe_matmul(dnnl_engine_t engine, const MatmulDescriptors& descriptors,
                       const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t* description) {
  dnnl_matmul_desc_t operation;
  MTL_DNNL("describe a matmul", dnnl_matmul_desc_init(&operation, descriptors.left.get(), descriptors.right.get(),
                                                      descriptors.bias.get(), descriptors.output.get()));
  MTL_DNNL("describe a matmul",
           dnnl_primitive_desc_create(description, &operation, attributes, engine, nullptr));
  return ok_status();
}

Status append_sum(dnnl_post_ops_t post_ops) {
  MTL_DNNL("append a sum", dnnl_post_ops_append_sum(post_ops, 1.0f));
  return ok_status();
}

#endif

Status create_reorder(dnnl_engine_t engine, MatrixDescriptor::Handle from, MatrixDescriptor::Handle to,
                      dnnl_primitive_t* reorder) {
  dnnl_primitive_desc_t description;
  MTL_DNNL("describe a copy", dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, nullptr));
  const dnnl_status_t status = dnnl_primitive_create(reorder, description);
  dnnl_primitive_desc_destroy(description);
  return status == dnnl_success ? ok_status() : onednn_error("create a copy", status);
}

}  // namespace mtl
