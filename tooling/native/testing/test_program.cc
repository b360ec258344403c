#include "test_program.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace mtl::testing {
namespace {

struct Test {
  const char* name;
  void (*body)();
};

std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

std::atomic<int> num_failures{0};

// Returns true if `name` contains one of the strings in `texts`, or if `texts` is empty.
bool is_chosen(const char* name, int num_texts, char** texts) {
  if (num_texts == 0) return true;
  for (int text = 0; text < num_texts; ++text) {
    if (std::strstr(name, texts[text]) != nullptr) return true;
  }
  return false;
}

// Counts a failure for each string in `texts` that no test name contains. Without this check, a renamed test
// would silently no longer run.
void expect_tests_for(int num_texts, char** texts) {
  for (int text = 0; text < num_texts; ++text) {
    bool is_found = false;
    for (const Test& test : all_tests()) is_found = is_found || std::strstr(test.name, texts[text]) != nullptr;
    if (is_found) continue;
    std::printf("no test is called like %s\n", texts[text]);
    ++num_failures;
  }
}

}  // namespace

Registration::Registration(const char* name, void (*body)()) { all_tests().push_back({name, body}); }

void report_failure(const char* file, int line, const char* expression) {
  if (++num_failures > 40) return;  // the first ones are sufficient
  const char* slash = std::strrchr(file, '/');
  std::printf("  FAILED %s:%d: %s\n", slash == nullptr ? file : slash + 1, line, expression);
}

int run_tests(int argc, char** argv, const TestProgram& program) {
  const bool is_shared = argc == 4 && std::strcmp(argv[1], "--share") == 0;
  const int share = is_shared ? std::atoi(argv[2]) : 0, num_shares = is_shared ? std::atoi(argv[3]) : 1;
  const int num_texts = is_shared ? 0 : argc - 1;
  expect_tests_for(num_texts, argv + 1);
  int num_run = 0, index = 0;
  for (const Test& test : all_tests()) {
    // adjacent tests, which are similar and take equally long, run in different shares
    if (index++ % num_shares != share) continue;
    if (!is_chosen(test.name, num_texts, argv + 1)) continue;
    const int before = num_failures;
    test.body();
    if (program.after_each != nullptr) program.after_each();
    std::printf("%s %s\n", num_failures == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
    ++num_run;
  }
  if (program.at_end != nullptr) program.at_end();
  std::printf("%d %s, %d failures\n", num_run, program.name, num_failures.load());
  return num_failures == 0 && num_run > 0 ? 0 : 1;
}

}  // namespace mtl::testing
