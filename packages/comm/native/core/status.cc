#include "core/status.h"

#include <cstdarg>
#include <cstdio>

namespace mtl::comm {
namespace {

std::string format_list(const char* format, va_list arguments) {
  char text[2048];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

}  // namespace

std::string format_text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

Status error_status(const char* code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Failure failure;
  failure.code = code;
  failure.message = format_list(format, arguments);
  va_end(arguments);
  return Status(std::move(failure));
}

}  // namespace mtl::comm
