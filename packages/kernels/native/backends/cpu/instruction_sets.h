// The instruction sets of the CPU backend (the list of isa/sets.cmake), and the one that kernels are selected
// for.
#pragma once

#include "core/status.h"

namespace mtl {

struct InstructionSet {
  const char* name;
  const char* extends;  // the set whose kernels compute what this one has no kernel for; "": none
  bool is_compiled;     // the build has kernels for it (MTL_INSTRUCTION_SETS of CMakeLists.txt)
  bool (*is_supported)();

  // Tells whether its kernels are in the build and run on this machine.
  bool is_usable() const { return is_compiled && is_supported(); }
};

// All instruction sets, the preferred one first.
struct InstructionSets {
  const InstructionSet *first, *last;

  const InstructionSet* begin() const { return first; }
  const InstructionSet* end() const { return last; }
};
InstructionSets instruction_sets();

// Returns null for an unknown name.
const InstructionSet* find_instruction_set(const char* name);

// Returns the preferred one of the sets that this machine supports.
const InstructionSet& detected_instruction_set();

// Returns the instruction set that kernels are selected for: the preferred one of the usable sets, unless
// set_instruction_set has chosen another. The last of the list if none is usable; the addon must not be used
// then.
const InstructionSet& active_instruction_set();

// Tells whether the kernels of a set multiply bfloat16 with instructions of the processor, faster than
// float32.
bool multiplies_bfloat16(const InstructionSet& set);

// The facts of a set that its kernels report.
struct InstructionSetFacts {
  InstructionSetFacts(const char* name, bool has_bfloat16_pairs);
};

// Selects another set; rejects a set that is unknown, or that the machine or the build does not have.
Status set_instruction_set(const char* name);

}  // namespace mtl
