// A small test harness. Tests register themselves. A failed expectation is printed and counted, and the
// process then exits with 1. No test framework is used, so that the sanitizers check only this project's
// code.
#pragma once

namespace mtl::testing {

struct Registration {
  Registration(const char* name, void (*body)());
};

// Counts a failed expectation. May be called from any thread. Only the first failures are printed.
void report_failure(const char* file, int line, const char* expression);

struct TestProgram {
  const char* name = "native tests";  // as printed in the last line
  void (*after_each)() = nullptr;     // its failures count for the test
  void (*at_end)() = nullptr;
};

// Runs the tests whose names contain one of the arguments; without arguments, runs all tests. With `--share 0
// 2`, runs the first of two equal parts of all tests. Returns the exit status for `main`: 0 if each argument
// matches a test and no test failed.
int run_tests(int argc, char** argv, const TestProgram& program = {});

}  // namespace mtl::testing

#define MTL_TEST(name)                                                          \
  static void name();                                                           \
  static const ::mtl::testing::Registration name##_registration(#name, name);   \
  static void name()

#define EXPECT(expression) \
  ((expression) ? static_cast<void>(0) : ::mtl::testing::report_failure(__FILE__, __LINE__, #expression))
