// Replaces onednn.cc in builds without oneDNN (MTL_ONEDNN=OFF), where our kernels compute every matmul.
#include "backends/cpu/onednn.h"

namespace mtl {

bool onednn_is_built() { return false; }

Status onednn_matmul(const MatmulProblem&) {
  return error_status("MTL_UNSUPPORTED", "this build contains no oneDNN");
}

Status add_onednn_scratch(const MatmulProblem&, ScratchBlocks*) {
  return error_status("MTL_UNSUPPORTED", "this build contains no oneDNN");
}

const char* onednn_version() { return "none"; }

}  // namespace mtl
