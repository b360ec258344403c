#include "backends/cuda/runtime/op_table.h"

#include <string_view>
#include <unordered_map>

namespace mtl::cuda {
namespace {

// The table is a local variable of a function, because registrations run before `main`, in any order.
std::unordered_map<std::string_view, KernelFunction>& kernels() {
  static std::unordered_map<std::string_view, KernelFunction> all;
  return all;
}

}  // namespace

KernelFunction find_kernel(const char* op) {
  const auto found = kernels().find(op);
  return found == kernels().end() ? nullptr : found->second;
}

KernelRegistration::KernelRegistration(const char* op, KernelFunction kernel) { kernels()[op] = kernel; }

}  // namespace mtl::cuda
