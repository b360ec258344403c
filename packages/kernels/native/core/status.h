// The result of every native function that can fail. The C++ code never throws and never aborts. It returns a
// Status up to bindings/, which converts it to a coded JavaScript error. A Status is plain data, so that it
// can cross a C ABI.
#pragma once

namespace mtl {

struct [[nodiscard]] Status {
  const char* code = nullptr;  // static string such as "MTL_SHAPE"; null means success
  char* message = nullptr;     // malloc'ed, owned by the receiver of the Status

  bool ok() const { return code == nullptr; }
};

// Success.
inline Status ok_status() { return Status{}; }

// Returns a failure with a printf-style message. `code` must be a string literal.
Status error_status(const char* code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Frees the message.
void discard(Status status);

}  // namespace mtl

#define MTL_RETURN_IF_ERROR(expression)          \
  do {                                           \
    ::mtl::Status mtl_status_ = (expression);    \
    if (!mtl_status_.ok()) return mtl_status_;   \
  } while (0)
