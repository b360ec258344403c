#include "core/index_check.h"

#include "core/validation.h"

namespace mtl {

Status index_error(const WrongIndex& wrong) {
  return error_status("MTL_INDEX", "%s: %s[%lld] is %lld, expected %lld to %lld", wrong.op, wrong.tensor,
                      static_cast<long long>(wrong.at), static_cast<long long>(wrong.value),
                      static_cast<long long>(wrong.first), static_cast<long long>(wrong.end - 1));
}

Status expect_indices(const OpCall& call, int tensor, int64_t end, int64_t first) {
  const int32_t* const indices = call.data<int32_t>(tensor);
  const int64_t size = call.tensor(tensor).size();
  for (int64_t at = 0; at < size; ++at) {
    if (indices[at] < first || indices[at] >= end) {
      return index_error({call.op, tensor_name(call, tensor), at, indices[at], end, first});
    }
  }
  return ok_status();
}

Status expect_offsets(const OpCall& call, int tensor, int64_t rows) {
  const int32_t* const offsets = call.data<int32_t>(tensor);
  const int64_t size = call.tensor(tensor).size();
  for (int64_t at = 0; at < size; ++at) {
    const int64_t first = at == 0 ? 0 : offsets[at - 1], end = at == 0 ? 1 : rows + 1;
    if (offsets[at] < first || offsets[at] >= end) {
      return index_error({call.op, tensor_name(call, tensor), at, offsets[at], end, first});
    }
  }
  return ok_status();
}

}  // namespace mtl
