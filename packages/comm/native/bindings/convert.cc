#include "bindings/convert.h"

#include <cmath>

namespace mtl::comm::bindings {
namespace {

using RegisterFunctions = void (*)(Napi::Env env, Napi::Object exports);

// a static variable in a function is used because files initialize their own statics in an unspecified order
std::vector<RegisterFunctions>& registered() {
  static std::vector<RegisterFunctions>* const all = new std::vector<RegisterFunctions>;
  return *all;
}

bool wrong(const Napi::CallbackInfo& info, size_t index, const char* expected) {
  throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument %zu is not %s", index, expected));
  return false;
}

// The functions below convert a JavaScript value, which may be empty. They return false if it does not have
// the expected type.
bool convert_number(const Napi::Value& value, double* number) {
  if (value.IsEmpty() || !value.IsNumber()) return false;
  *number = value.As<Napi::Number>().DoubleValue();
  return true;
}

bool convert_integer(const Napi::Value& value, int64_t* integer) {
  double number;
  if (!convert_number(value, &number)) return false;
  if (!(std::fabs(number) < 9007199254740992.0) || number != std::floor(number)) return false;
  *integer = static_cast<int64_t>(number);
  return true;
}

bool convert_text(const Napi::Value& value, std::string* text) {
  if (value.IsEmpty() || !value.IsString()) return false;
  *text = value.As<Napi::String>().Utf8Value();
  return true;
}

bool convert_integers(const Napi::Value& value, std::vector<int>* values) {
  if (value.IsEmpty() || !value.IsArray()) return false;
  const Napi::Array array = value.As<Napi::Array>();
  values->clear();
  for (uint32_t element = 0; element < array.Length(); ++element) {
    const Napi::Value item = array.Get(element);
    if (!item.IsNumber()) return false;
    values->push_back(item.As<Napi::Number>().Int32Value());
  }
  return true;
}

bool convert_bytes(const Napi::Value& value, std::string* bytes) {
  if (value.IsEmpty() || !value.IsTypedArray()) return false;
  if (value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) return false;
  const Napi::Uint8Array array = value.As<Napi::Uint8Array>();
  bytes->assign(reinterpret_cast<const char*>(array.Data()), array.ByteLength());
  return true;
}

Napi::Value argument(const Napi::CallbackInfo& info, size_t index) {
  return index < info.Length() ? info[index] : Napi::Value();
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
  return convert_number(argument(info, index), value) || wrong(info, index, "a number");
}

bool read_integer(const Napi::CallbackInfo& info, size_t index, int64_t* value) {
  return convert_integer(argument(info, index), value) || wrong(info, index, "an integer");
}

bool read_text(const Napi::CallbackInfo& info, size_t index, std::string* text) {
  return convert_text(argument(info, index), text) || wrong(info, index, "a string");
}

bool read_integers(const Napi::CallbackInfo& info, size_t index, std::vector<int>* values) {
  return convert_integers(argument(info, index), values) || wrong(info, index, "an array of integers");
}

Fields::Fields(const Napi::CallbackInfo& info, size_t index) : env_(info.Env()) {
  const Napi::Value value = argument(info, index);
  if (!value.IsEmpty() && value.IsObject()) {
    object_ = value.As<Napi::Object>();
    return;
  }
  is_failed_ = true;
  wrong(info, index, "an object");
}

Napi::Value Fields::value_of(const char* name) const { return is_failed_ ? Napi::Value() : object_.Get(name); }

bool Fields::check(bool is_expected, const char* name, const char* expected) {
  if (is_expected || is_failed_) return is_expected;
  is_failed_ = true;
  throw_status(env_, error_status("MTL_ARGUMENT", "%s is not %s", name, expected));
  return false;
}

bool Fields::number(const char* name, double* value) {
  return check(convert_number(value_of(name), value), name, "a number");
}

bool Fields::integer(const char* name, int64_t* value) {
  return check(convert_integer(value_of(name), value), name, "an integer");
}

bool Fields::text(const char* name, std::string* text) {
  return check(convert_text(value_of(name), text), name, "a string");
}

bool Fields::integers(const char* name, std::vector<int>* values) {
  return check(convert_integers(value_of(name), values), name, "an array of integers");
}

bool Fields::counts(const char* name, std::vector<uint64_t>* values) {
  const Napi::Value found = value_of(name);
  bool is_list = !found.IsEmpty() && found.IsArray();
  if (is_list) {
    const Napi::Array array = found.As<Napi::Array>();
    values->resize(array.Length());
    for (uint32_t element = 0; is_list && element < array.Length(); ++element) {
      int64_t value = -1;
      is_list = convert_integer(array.Get(element), &value) && value >= 0;
      (*values)[element] = static_cast<uint64_t>(value);
    }
  }
  return check(is_list, name, "an array of whole numbers from 0");
}

bool Fields::has(const char* name) const { return !is_failed_ && object_.Has(name); }

bool Fields::flag(const char* name, bool* value) {
  const Napi::Value found = value_of(name);
  const bool is_boolean = !found.IsEmpty() && found.IsBoolean();
  if (is_boolean) *value = found.As<Napi::Boolean>().Value();
  return check(is_boolean, name, "a boolean");
}

bool Fields::bytes(const char* name, std::string* bytes) {
  return check(convert_bytes(value_of(name), bytes), name, "a Uint8Array");
}

bool Fields::list_of_bytes(const char* name, std::vector<std::string>* list) {
  const Napi::Value found = value_of(name);
  bool is_list = !found.IsEmpty() && found.IsArray();
  if (is_list) {
    const Napi::Array array = found.As<Napi::Array>();
    list->resize(array.Length());
    for (uint32_t element = 0; is_list && element < array.Length(); ++element) {
      is_list = convert_bytes(array.Get(element), &(*list)[element]);
    }
  }
  return check(is_list, name, "an array of Uint8Arrays");
}

}  // namespace mtl::comm::bindings
