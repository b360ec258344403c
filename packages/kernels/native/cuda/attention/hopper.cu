#include "cuda/attention/hopper.h"

#include <cstdlib>
#include <cstring>

namespace mtl::cuda {
namespace {

// sm_90a is the code of compute capability 9.0 alone: nothing else runs it, later cards neither.
bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return false;
  if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) return false;
  return major == 9 && minor == 0;
}

// Narrower heads would be mostly zeros at width 64; wider ones need other tiles.
bool is_covered(const AttentionProblem& problem) {
  return problem.starts == nullptr && problem.head_size >= 40 && problem.head_size <= 128;
}

}  // namespace

bool is_attention_variable_known() {
  const char* const asked = std::getenv(kAttentionVariable);
  return asked == nullptr || *asked == '\0' || std::strcmp(asked, "mma.sync") == 0;
}

bool is_for_hopper(const AttentionProblem& problem) {
  static const bool on_hopper = is_hopper();  // a process has one device
  const char* const asked = std::getenv(kAttentionVariable);
  return on_hopper && is_covered(problem) && (asked == nullptr || *asked == '\0');
}

}  // namespace mtl::cuda
