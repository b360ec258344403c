#include "backends/cpu/instruction_sets.h"

#include <cstring>
#include <string>

#include "platforms/platform.h"

namespace mtl {
namespace {

// The table is constant-initialised, so that kernels can be registered in its rows before main.
#define MTL_INSTRUCTION_SET(name, extends, is_compiled, is_supported) \
  {name, extends, is_compiled, [] { return is_supported; }},
constexpr InstructionSet kSets[] = {
#include "instruction_set_rows.inc"
};

bool has_bfloat16_pairs[sizeof kSets / sizeof *kSets];

template <typename Accepts>
const InstructionSet& preferred(const Accepts& accepts) {
  const InstructionSet* set = instruction_sets().begin();
  while (set + 1 != instruction_sets().end() && !accepts(*set)) ++set;
  return *set;
}

const InstructionSet*& chosen() {
  static const InstructionSet* set = &preferred([](const InstructionSet& each) { return each.is_usable(); });
  return set;
}

std::string names_of_usable_sets() {
  std::string names;
  for (const InstructionSet& set : instruction_sets()) {
    if (set.is_usable()) names += (names.empty() ? "" : ", ") + std::string(set.name);
  }
  return names;
}

}  // namespace

InstructionSets instruction_sets() { return {std::begin(kSets), std::end(kSets)}; }

const InstructionSet* find_instruction_set(const char* name) {
  for (const InstructionSet& set : instruction_sets()) {
    if (std::strcmp(set.name, name) == 0) return &set;
  }
  return nullptr;
}

const InstructionSet& detected_instruction_set() {
  return preferred([](const InstructionSet& each) { return each.is_supported(); });
}

InstructionSetFacts::InstructionSetFacts(const char* name, bool has_pairs) {
  has_bfloat16_pairs[find_instruction_set(name) - kSets] = has_pairs;
}

bool multiplies_bfloat16(const InstructionSet& set) { return has_bfloat16_pairs[&set - kSets]; }

const InstructionSet& active_instruction_set() { return *chosen(); }

Status set_instruction_set(const char* name) {
  const InstructionSet* const set = find_instruction_set(name);
  if (set == nullptr || !set->is_usable()) {
    const char* const reason = set == nullptr         ? "the kernels know no instruction set"
                               : !set->is_supported() ? "this processor does not have the instruction set"
                                                      : "the kernels were not compiled for the instruction set";
    return error_status("MTL_INSTRUCTION_SET", "%s %s, expected one of %s", reason, name, names_of_usable_sets().c_str());
  }
  chosen() = set;
  return ok_status();
}

}  // namespace mtl
