#include "core/index_check.h"

#include "core/validation.h"

namespace mtl {

Status index_error(const WrongIndex& wrong) {
  return error_status("MTL_INDEX", "%s: %s[%lld] is %lld, expected 0 to %lld", wrong.op, wrong.tensor,
                      static_cast<long long>(wrong.at), static_cast<long long>(wrong.value),
                      static_cast<long long>(wrong.end - 1));
}

Status expect_indices(const OpCall& call, int tensor, int64_t end) {
  const int32_t* const indices = call.data<int32_t>(tensor);
  const int64_t size = call.tensor(tensor).size();
  for (int64_t at = 0; at < size; ++at) {
    if (indices[at] < 0 || indices[at] >= end) {
      return index_error({call.op, tensor_name(call, tensor), at, indices[at], end});
    }
  }
  return ok_status();
}

}  // namespace mtl
