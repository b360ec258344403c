// The result of every native function that can fail. The C++ code never throws and never aborts: a Status is
// returned up to bindings/, which converts it to a coded JavaScript error with details. A successful Status
// is a null pointer.
#pragma once

#include <memory>
#include <string>

namespace mtl::comm {

struct Failure {
  std::string code;     // such as "MTL_TIMEOUT"
  std::string message;  // names rank, group, operation, sequence and waiting time, if known
  int rank = -1;        // the global rank that caused the failure; -1 if unknown
  std::string group;    // from here on: what this process was doing when it detected the failure
  std::string operation;
  std::string sequence;
  double waited_ms = 0;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Failure failure) : failure_(std::make_shared<const Failure>(std::move(failure))) {}

  bool ok() const { return failure_ == nullptr; }
  const Failure& failure() const { return *failure_; }

 private:
  std::shared_ptr<const Failure> failure_;
};

inline Status ok_status() { return Status(); }

// Returns a failure that no particular rank has caused. The message is formatted as by printf.
Status error_status(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// printf into a string.
std::string format_text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace mtl::comm

#define MTL_RETURN_IF_ERROR(expression)               \
  do {                                                \
    ::mtl::comm::Status mtl_status_ = (expression);   \
    if (!mtl_status_.ok()) return mtl_status_;        \
  } while (0)
