// Calls of the operations of mixture-of-experts layers.
#pragma once

#include "tests/op_case.h"

namespace mtl::tests {

std::vector<Case> expert_cases(int64_t width);
std::vector<Case> router_cases(int64_t experts);

}  // namespace mtl::tests
