#include "core/op_registry.h"

#include <cstring>
#include <deque>

namespace mtl {
namespace {

// Registrations run before main in an unspecified order, so a kernel may arrive before its schema; the container is a
// function-local static for that reason, and a deque so that entries never move.
std::deque<OpEntry>& entries() {
  static std::deque<OpEntry> all;
  return all;
}

OpEntry& entry_named(const char* name) {
  for (OpEntry& entry : entries()) {
    if (std::strcmp(entry.schema.name, name) == 0) return entry;
  }
  entries().emplace_back();
  entries().back().schema.name = name;
  return entries().back();
}

}  // namespace

int num_ops() { return static_cast<int>(entries().size()); }

const OpEntry* op_at(int index) {
  return index < 0 || index >= num_ops() ? nullptr : &entries()[static_cast<size_t>(index)];
}

const OpEntry* find_op(const char* name) {
  for (const OpEntry& entry : entries()) {
    if (std::strcmp(entry.schema.name, name) == 0) return &entry;
  }
  return nullptr;
}

OpRegistration::OpRegistration(const OpSchema& schema) { entry_named(schema.name).schema = schema; }

CpuKernelRegistration::CpuKernelRegistration(const char* op, InstructionSet level, KernelFunction kernel) {
  entry_named(op).cpu[static_cast<int>(level)] = kernel;
}

ReferenceKernelRegistration::ReferenceKernelRegistration(const char* op, KernelFunction kernel) {
  entry_named(op).reference = kernel;
}

}  // namespace mtl
