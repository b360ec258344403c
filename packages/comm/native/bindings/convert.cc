#include "bindings/convert.h"

#include <cmath>

namespace mtl::comm::bindings {
namespace {

using RegisterFunctions = void (*)(Napi::Env env, Napi::Object exports);

// not a plain static: the order in which files register is unspecified
std::vector<RegisterFunctions>& registered() {
  static std::vector<RegisterFunctions>* const all = new std::vector<RegisterFunctions>;
  return *all;
}

bool wrong(const Napi::CallbackInfo& info, size_t index, const char* expected) {
  throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu is not %s", index, expected));
  return false;
}

}  // namespace

Registration::Registration(RegisterFunctions register_functions) { registered().push_back(register_functions); }

void register_all(Napi::Env env, Napi::Object exports) {
  for (const RegisterFunctions register_functions : registered()) register_functions(env, exports);
}

void set_failure(Napi::Object target, const Failure& failure) {
  target.Set("code", failure.code);
  if (failure.rank >= 0) target.Set("rank", failure.rank);
  if (failure.operation.empty()) return;
  target.Set("group", failure.group);
  target.Set("operation", failure.operation);
  target.Set("sequence", failure.sequence);
  target.Set("waitedMs", failure.waited_ms);
}

void throw_status(const Napi::Env& env, const Status& status) {
  Napi::Error error = Napi::Error::New(env, status.failure().message);
  set_failure(error.Value(), status.failure());
  error.ThrowAsJavaScriptException();
}

bool read_number(const Napi::CallbackInfo& info, size_t index, double* value) {
  if (index >= info.Length() || !info[index].IsNumber()) return wrong(info, index, "a number");
  *value = info[index].As<Napi::Number>().DoubleValue();
  return true;
}

bool read_integer(const Napi::CallbackInfo& info, size_t index, int64_t* value) {
  double number;
  if (!read_number(info, index, &number)) return false;
  if (!(std::fabs(number) < 9007199254740992.0) || number != std::floor(number)) return wrong(info, index, "an integer");
  *value = static_cast<int64_t>(number);
  return true;
}

bool read_text(const Napi::CallbackInfo& info, size_t index, std::string* text) {
  if (index >= info.Length() || !info[index].IsString()) return wrong(info, index, "a string");
  *text = info[index].As<Napi::String>().Utf8Value();
  return true;
}

bool read_integers(const Napi::CallbackInfo& info, size_t index, std::vector<int>* values) {
  if (index >= info.Length() || !info[index].IsArray()) return wrong(info, index, "an array");
  const Napi::Array array = info[index].As<Napi::Array>();
  values->clear();
  for (uint32_t element = 0; element < array.Length(); ++element) {
    const Napi::Value value = array.Get(element);
    if (!value.IsNumber()) return wrong(info, index, "an array of integers");
    values->push_back(value.As<Napi::Number>().Int32Value());
  }
  return true;
}

}  // namespace mtl::comm::bindings
