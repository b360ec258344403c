// The instruction sets of the CPU backend (listed in isa/sets.cmake), and the active set, for which kernels
// are selected.
#pragma once

#include "core/status.h"

namespace mtl {

struct InstructionSet {
  const char* name;
  const char* extends;  // the set whose kernels compute what this one has no kernel for; "": none
  bool is_compiled;     // the build has kernels for it (MTL_INSTRUCTION_SETS of CMakeLists.txt)
  bool (*is_supported)();

  // Returns true if the build contains the set's kernels and this machine supports the set.
  bool is_usable() const { return is_compiled && is_supported(); }
};

// All instruction sets, in order of preference.
struct InstructionSets {
  const InstructionSet *first, *last;

  const InstructionSet* begin() const { return first; }
  const InstructionSet* end() const { return last; }
};
InstructionSets instruction_sets();

// Returns null for an unknown name.
const InstructionSet* find_instruction_set(const char* name);

// Returns this machine's preferred instruction set.
const InstructionSet& detected_instruction_set();

// Returns the active instruction set: the preferred usable set, unless set_instruction_set has selected a
// different one. If no set is usable, returns the last set in the list of instruction sets; the addon must
// not be used in this case.
const InstructionSet& active_instruction_set();

// Returns true if the kernels of a set multiply bfloat16 with special processor instructions, which are
// faster than float32.
bool multiplies_bfloat16(const InstructionSet& set);

// The properties that the kernels of an instruction set report.
struct InstructionSetFacts {
  InstructionSetFacts(const char* name, bool has_bfloat16_pairs);
};

// Selects the instruction set `name`. Rejects a set that is unknown, or that the machine or the build does
// not have.
Status set_instruction_set(const char* name);

}  // namespace mtl
