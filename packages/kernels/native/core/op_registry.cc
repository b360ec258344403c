#include "core/op_registry.h"

#include <deque>
#include <string_view>
#include <unordered_map>

namespace mtl {
namespace {

// Registrations run before main in an unspecified order, so a kernel may be registered before its schema. The
// container is therefore a function-local static. It is a deque, so that entries never move.
std::deque<OpEntry>& entries() {
  static std::deque<OpEntry> all;
  return all;
}

// The entries by name. Every call of an operation looks up its kernel after the previous kernel has evicted
// the entries from the caches. A map touches only a few entries, whereas a scan would touch all entries.
std::unordered_map<std::string_view, OpEntry*>& entries_by_name() {
  static std::unordered_map<std::string_view, OpEntry*> all;
  return all;
}

OpEntry& entry_named(const char* name) {
  OpEntry*& entry = entries_by_name()[name];
  if (entry == nullptr) {
    entry = &entries().emplace_back();
    entry->schema.name = name;
  }
  return *entry;
}

int num_names(const char* const* names, int maximum) {
  int count = 0;
  while (count < maximum && names[count] != nullptr) ++count;
  return count;
}

}  // namespace

int num_tensors(const OpSchema& schema) { return num_names(schema.tensors, kMaxTensors); }
int num_attributes(const OpSchema& schema) { return num_names(schema.attributes, kMaxAttributes); }

int num_ops() { return static_cast<int>(entries().size()); }

const OpEntry* op_at(int index) {
  return index < 0 || index >= num_ops() ? nullptr : &entries()[static_cast<size_t>(index)];
}

const OpEntry* find_op(const char* name) {
  const auto found = entries_by_name().find(name);
  return found == entries_by_name().end() ? nullptr : found->second;
}

OpRegistration::OpRegistration(const OpSchema& schema) { entry_named(schema.name).schema = schema; }

CpuKernelRegistration::CpuKernelRegistration(const char* op, const InstructionSet* set, KernelFunction kernel,
                                             ScratchFunction scratch) {
  entry_named(op).cpu.push_back({set, kernel, scratch});
}

CudaScratchRegistration::CudaScratchRegistration(const char* op, CudaScratchFunction scratch) {
  entry_named(op).cuda_scratch = scratch;
}

ReferenceKernelRegistration::ReferenceKernelRegistration(const char* op, KernelFunction kernel) {
  entry_named(op).reference = kernel;
}

}  // namespace mtl
