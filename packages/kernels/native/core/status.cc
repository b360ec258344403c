#include "core/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace mtl {

Status error_status(const char* code, const char* format, ...) {
  constexpr int kMaxMessage = 1024;
  Status status;
  status.code = code;
  status.message = static_cast<char*>(std::malloc(kMaxMessage));
  if (status.message != nullptr) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(status.message, kMaxMessage, format, arguments);
    va_end(arguments);
  }
  return status;
}

void discard(Status status) { std::free(status.message); }

}  // namespace mtl
