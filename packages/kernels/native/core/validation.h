// The checks that ops/<op>.cc use for their contracts. Each failure names the op, the tensor, and its actual
// and expected properties.
#pragma once

#include <initializer_list>

#include "core/op_registry.h"

namespace mtl {

// Returns a tensor's name without the '?' that marks optional tensors. The name is valid until the thread's
// next call.
const char* tensor_name(const OpCall& call, int tensor);

// A shape in the form that messages use: `[2, 3]`.
struct ShapeText {
  explicit ShapeText(const TensorView& view) : ShapeText(view.shape, view.rank) {}
  ShapeText(const int64_t* shape, int rank);
  char text[160];
};

// Checks that the tensor is present and has exactly the given shape.
Status expect_shape(const OpCall& call, int tensor, std::initializer_list<int64_t> shape);
// Returns the error for a tensor whose shape is not `shape`, which consists of `rank` sizes.
Status shape_error(const OpCall& call, int tensor, const int64_t* shape, int rank);
// Checks that the tensor is present and has at least `minimum` and at most `maximum` dimensions.
Status expect_rank(const OpCall& call, int tensor, int minimum, int maximum);
// Checks that the tensor has one of the given dtypes.
Status expect_dtype(const OpCall& call, int tensor, std::initializer_list<DType> dtypes);
// Checks that the tensors `tensor` and `other` have the same dtype and shape.
Status expect_like(const OpCall& call, int tensor, int other);
// Checks that the tensors `tensor` and `other` have the same shape. Their dtypes may differ.
Status expect_same_shape(const OpCall& call, int tensor, int other);
// Checks that the tensors `tensor` and `other` have the same number of elements. Their shapes may differ.
Status expect_as_many(const OpCall& call, int tensor, int other);
// Checks that the output shares no memory with the given inputs. This is required because the output is
// written before all inputs have been read.
Status expect_separate_output(const OpCall& call, int output, std::initializer_list<int> inputs);
// Checks that the elements of the last dimension are adjacent in memory, as in a contiguous tensor or a
// strided view of complete rows.
Status expect_whole_rows(const OpCall& call, int tensor);
// Returns an error with the code MTL_ARGUMENT and the message "<op>: <text>".
Status argument_error(const OpCall& call, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Checks that the tensor's dtype is float32, bfloat16, float16 or float64: the dtypes of activations and
// weights (float64 for gradient checks on the reference).
Status expect_floating(const OpCall& call, int tensor);

}  // namespace mtl
