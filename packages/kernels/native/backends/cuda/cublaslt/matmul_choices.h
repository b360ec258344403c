// Chooses cuBLASLt's algorithm for each matmul problem. Each problem is timed once, and its choice does not
// change later. A problem without a choice uses the first algorithm in the library's order.
#pragma once

#include <map>
#include <string>

#include "backends/cuda/cublaslt/cublaslt_api.h"
#include "core/status.h"

namespace mtl::cuda {

class MatmulChoices {
 public:
  // Sets the choices from a string with one choice per line: the problem, a space, and the algorithm in
  // hexadecimal. If the string has a different form, returns MTL_MATMUL_CHOICES and changes nothing.
  Status set(const char* lines);
  void add(const std::string& problem, const lt::Algorithm& algorithm) { by_problem_[problem] = algorithm; }
  // Returns the problem's choice, or null if it has none.
  const lt::Algorithm* find(const std::string& problem) const;
  // Returns the choices in the format of `set`, in the order of the problems.
  std::string lines() const;

 private:
  std::map<std::string, lt::Algorithm> by_problem_;
};

}  // namespace mtl::cuda
