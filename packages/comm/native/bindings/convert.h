// Helpers for the files of this folder: reading JavaScript arguments, throwing coded errors and registering
// functions. No other file includes napi.h. A function that fails leaves a pending exception and returns an
// empty value.
#pragma once

#include <napi.h>

#include <vector>

#include "core/status.h"

namespace mtl::comm::bindings {

// Throws `status` as an Error. Known details become properties: `code`, `rank`, `group`, `operation`,
// `sequence` and `waitedMs`.
void throw_status(const Napi::Env& env, const Status& status);
// Sets the properties that throw_status sets, on any object.
void set_failure(Napi::Object target, const Failure& failure);

// Reads argument `index`. Returns false with a pending MTL_ARGUMENT exception if it does not have the
// expected type.
bool read_number(const Napi::CallbackInfo& info, size_t index, double* value);
bool read_integer(const Napi::CallbackInfo& info, size_t index, int64_t* value);
bool read_text(const Napi::CallbackInfo& info, size_t index, std::string* text);
bool read_integers(const Napi::CallbackInfo& info, size_t index, std::vector<int>* values);

// Reads the named fields of an options object, which is argument `index`. If a field has the wrong type, the
// read returns false with a pending MTL_ARGUMENT exception, and all later reads return false too.
class Fields {
 public:
  Fields(const Napi::CallbackInfo& info, size_t index);

  bool number(const char* name, double* value);
  bool integer(const char* name, int64_t* value);
  bool text(const char* name, std::string* text);
  bool integers(const char* name, std::vector<int>* values);
  // Whole numbers, 0 or more.
  bool counts(const char* name, std::vector<uint64_t>* values);
  bool has(const char* name) const;
  bool flag(const char* name, bool* value);
  bool bytes(const char* name, std::string* bytes);
  bool list_of_bytes(const char* name, std::vector<std::string>* list);

 private:
  Napi::Value value_of(const char* name) const;
  bool check(bool is_expected, const char* name, const char* expected);

  const Napi::Env env_;
  Napi::Object object_;
  bool is_failed_ = false;
};

// Each file of bindings has one static object of this type: the object's `register_functions` adds the file's
// functions to the module's exports.
struct Registration {
  explicit Registration(void (*register_functions)(Napi::Env env, Napi::Object exports));
};
void register_all(Napi::Env env, Napi::Object exports);

}  // namespace mtl::comm::bindings
