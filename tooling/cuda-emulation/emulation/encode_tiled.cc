#include "emulation/encode_tiled.h"

#include <cstring>

#include "emulation/async_work.h"

namespace mtl::emulation {
namespace {

constexpr int kOk = 0, kInvalid = 1;
constexpr uint32_t kRank = 3, kElementBytes = 2, kMaxBox = 256, kUnit = 16;
constexpr uint64_t kMaxDim = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;

bool is_half_type(int type) { return type == 6 || type == 9; }  // float16, bfloat16

}  // namespace

int encode_tiled(void* map, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides,
                 const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int, int outside) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (!is_half_type(type) || rank != kRank || interleave != 0 || outside != 0 || swizzle < 0 || swizzle > 3) return kInvalid;
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || address % kUnit != 0) return kInvalid;
  TensorMapFacts facts = {};
  facts.magic = TensorMapFacts::kMagic;
  facts.data = static_cast<const unsigned char*>(data);
  facts.element_bytes = kElementBytes;
  facts.swizzle_bytes = swizzle == 0 ? 0 : kUnit << swizzle;
  for (uint32_t d = 0; d < kRank; ++d) {
    if (dims[d] == 0 || dims[d] >= kMaxDim || box[d] == 0 || box[d] > kMaxBox || element_strides[d] != 1) return kInvalid;
    facts.dims[d] = static_cast<uint32_t>(dims[d]);
    facts.box[d] = box[d];
  }
  for (uint32_t d = 0; d + 1 < kRank; ++d) {
    if (strides[d] % kUnit != 0 || strides[d] >= kMaxStride) return kInvalid;
    facts.strides[d] = strides[d];
  }
  const uint32_t inner = box[0] * kElementBytes;
  // rows must be as long as the swizzle; a GPU allows shorter rows, but matrix descriptors would expect them
  // at different addresses
  if (inner % kUnit != 0 || (facts.swizzle_bytes != 0 && inner != facts.swizzle_bytes)) return kInvalid;
  std::memcpy(map, &facts, sizeof facts);
  return kOk;
}

}  // namespace mtl::emulation
