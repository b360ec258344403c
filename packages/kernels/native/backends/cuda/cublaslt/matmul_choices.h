// The choice of cuBLASLt's algorithm for each matmul problem: each problem is timed once, and its choice does
// not change later. A problem without a choice uses the first algorithm in the library's order.
#pragma once

#include <map>
#include <string>

#include "backends/cuda/cublaslt/cublaslt_api.h"
#include "core/status.h"

namespace mtl::cuda {

class MatmulChoices {
 public:
  // Sets the choices from text with one choice per line: the problem, a space, and the algorithm in
  // hexadecimal. Other text gives MTL_MATMUL_CHOICES and changes nothing.
  Status set(const char* lines);
  void add(const std::string& problem, const lt::Algorithm& algorithm) { by_problem_[problem] = algorithm; }
  // Returns null if the problem has no choice.
  const lt::Algorithm* find(const std::string& problem) const;
  // Returns the choices in the format of `set`, in the order of the problems.
  std::string lines() const;

 private:
  std::map<std::string, lt::Algorithm> by_problem_;
};

}  // namespace mtl::cuda
