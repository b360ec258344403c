#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

const InstructionSetFacts facts(MTL_STRINGIFY(MTL_ISA), kHasBfloat16Pairs);

}  // namespace
}  // namespace mtl
