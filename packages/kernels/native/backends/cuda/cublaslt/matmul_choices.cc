#include "backends/cuda/cublaslt/matmul_choices.h"

#include <cstdio>
#include <sstream>
#include <utility>

namespace mtl::cuda {
namespace {

constexpr size_t kNumWords = sizeof(lt::Algorithm::data) / sizeof(uint64_t);
constexpr size_t kDigitsOfWord = 16;

bool parse(const std::string& text, lt::Algorithm* algorithm) {
  if (text.size() != kNumWords * kDigitsOfWord || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  for (size_t word = 0; word < kNumWords; ++word) {
    algorithm->data[word] = std::stoull(text.substr(word * kDigitsOfWord, kDigitsOfWord), nullptr, 16);
  }
  return true;
}

}  // namespace

Status MatmulChoices::set(const char* lines) {
  std::map<std::string, lt::Algorithm> parsed;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    const size_t end = line.find(' ');
    lt::Algorithm algorithm;
    if (end == 0 || end == std::string::npos || !parse(line.substr(end + 1), &algorithm)) {
      return error_status("MTL_MATMUL_CHOICES", "a choice of a matmul's algorithm is \"%.80s\", expected a problem and %zu "
                          "hexadecimal digits", line.c_str(), kNumWords * kDigitsOfWord);
    }
    parsed[line.substr(0, end)] = algorithm;
  }
  by_problem_ = std::move(parsed);
  return ok_status();
}

const lt::Algorithm* MatmulChoices::find(const std::string& problem) const {
  const auto found = by_problem_.find(problem);
  return found == by_problem_.end() ? nullptr : &found->second;
}

std::string MatmulChoices::lines() const {
  std::string text;
  for (const auto& [problem, algorithm] : by_problem_) {
    text += problem + " ";
    for (const uint64_t word : algorithm.data) {
      char digits[kDigitsOfWord + 1];
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
      text += digits;
    }
    text += "\n";
  }
  return text;
}

}  // namespace mtl::cuda
