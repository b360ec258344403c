#include "core/validation.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/shared_memory.h"

namespace mtl {

const char* tensor_name(const OpCall& call, int tensor) {
  static thread_local char text[64];
  const OpEntry* entry = find_op(call.op);
  const char* name = entry == nullptr ? nullptr : entry->schema.tensors[tensor];
  std::snprintf(text, sizeof text, "%s", name == nullptr ? "tensor" : name);
  const size_t length = std::strlen(text);
  if (length > 0 && text[length - 1] == '?') text[length - 1] = '\0';
  return text;
}

namespace {

void print_shape(char* text, size_t size, const int64_t* shape, int rank) {
  size_t used = static_cast<size_t>(std::snprintf(text, size, "["));
  for (int dim = 0; dim < rank && used < size; ++dim) {
    used += static_cast<size_t>(std::snprintf(text + used, size - used, dim == 0 ? "%lld" : ", %lld",
                                              static_cast<long long>(shape[dim])));
  }
  if (used < size) std::snprintf(text + used, size - used, "]");
}

Status missing(const OpCall& call, int tensor) {
  return error_status("MTL_SHAPE", "%s: %s is missing", call.op, tensor_name(call, tensor));
}

}  // namespace

ShapeText::ShapeText(const int64_t* shape, int rank) { print_shape(text, sizeof text, shape, rank); }

Status shape_error(const OpCall& call, int tensor, const int64_t* shape, int rank) {
  return error_status("MTL_SHAPE", "%s: %s has shape %s, expected %s", call.op, tensor_name(call, tensor),
                      ShapeText(call.tensor(tensor)).text, ShapeText(shape, rank).text);
}

Status expect_shape(const OpCall& call, int tensor, std::initializer_list<int64_t> shape) {
  if (!call.has(tensor)) return missing(call, tensor);
  const TensorView& view = call.tensor(tensor);
  bool same = view.rank == static_cast<int>(shape.size());
  for (int dim = 0; same && dim < view.rank; ++dim) same = view.shape[dim] == shape.begin()[dim];
  return same ? ok_status() : shape_error(call, tensor, shape.begin(), static_cast<int>(shape.size()));
}

Status expect_rank(const OpCall& call, int tensor, int minimum, int maximum) {
  if (!call.has(tensor)) return missing(call, tensor);
  const int rank = call.tensor(tensor).rank;
  if (rank >= minimum && rank <= maximum) return ok_status();
  return error_status("MTL_SHAPE", "%s: %s has %d dimensions, expected %d to %d", call.op, tensor_name(call, tensor),
                      rank, minimum, maximum);
}

Status expect_dtype(const OpCall& call, int tensor, std::initializer_list<DType> dtypes) {
  if (!call.has(tensor)) return missing(call, tensor);
  const DType actual = call.tensor(tensor).dtype;
  char expected[120] = "";
  for (DType dtype : dtypes) {
    if (dtype == actual) return ok_status();
    const size_t used = std::strlen(expected);
    std::snprintf(expected + used, sizeof expected - used, used == 0 ? "%s" : " or %s", name_of(dtype));
  }
  return error_status("MTL_DTYPE", "%s: %s is %s, expected %s", call.op, tensor_name(call, tensor), name_of(actual),
                      expected);
}

Status expect_like(const OpCall& call, int tensor, int other) {
  if (!call.has(tensor)) return missing(call, tensor);
  const TensorView& model = call.tensor(other);
  MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {model.dtype}));
  return expect_same_shape(call, tensor, other);
}

Status expect_same_shape(const OpCall& call, int tensor, int other) {
  if (!call.has(tensor)) return missing(call, tensor);
  const TensorView& view = call.tensor(tensor);
  const TensorView& model = call.tensor(other);
  bool same = view.rank == model.rank;
  for (int dim = 0; same && dim < view.rank; ++dim) same = view.shape[dim] == model.shape[dim];
  return same ? ok_status() : shape_error(call, tensor, model.shape, model.rank);
}

Status expect_as_many(const OpCall& call, int tensor, int other) {
  const int64_t actual = call.tensor(tensor).size(), expected = call.tensor(other).size();
  if (actual == expected) return ok_status();
  const std::string name = tensor_name(call, tensor);
  return argument_error(call, "%s has %lld elements, expected as many as %s: %lld", name.c_str(),
                        static_cast<long long>(actual), tensor_name(call, other), static_cast<long long>(expected));
}

Status expect_separate_output(const OpCall& call, int output, std::initializer_list<int> inputs) {
  for (const int input : inputs) {
    if (!call.has(input) || !overlap(call.tensor(output), call.tensor(input))) continue;
    const std::string name = tensor_name(call, output);
    return error_status("MTL_SHAPE", "%s: %s and %s overlap in memory, expected an output of its own", call.op,
                        name.c_str(), tensor_name(call, input));
  }
  return ok_status();
}

Status expect_whole_rows(const OpCall& call, int tensor) {
  const TensorView& view = call.tensor(tensor);
  if (view.rows() > UINT32_MAX) {
    return error_status("MTL_SHAPE", "%s: %s has %lld rows, expected fewer than 2^32", call.op, tensor_name(call, tensor),
                        static_cast<long long>(view.rows()));
  }
  if (view.dim(-1) <= 1 || view.stride(-1) == 1) return ok_status();
  return error_status("MTL_SHAPE", "%s: the elements of a row of %s are %lld elements apart, expected a last dimension "
                      "with stride 1", call.op, tensor_name(call, tensor), static_cast<long long>(view.stride(-1)));
}

Status argument_error(const OpCall& call, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return error_status("MTL_ARGUMENT", "%s: %s", call.op, text);
}

Status expect_floating(const OpCall& call, int tensor) {
  return expect_dtype(call, tensor, {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64});
}

}  // namespace mtl
