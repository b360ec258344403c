// Collectives over the connections of a mesh, for all or some members of a group. Every pair of members
// communicates directly. The number of bytes is the same as in a ring, but every message takes only one hop.
// Each element is summed in member order, either by a single member or by every member from the same values.
// All members therefore get the same bits, whatever the timing.
//
// The functions do not compare descriptions; the caller must have called GlooMesh::agree.
#pragma once

#include "engines/gloo/gloo_mesh.h"

namespace mtl::comm::gloo {

// An array to reduce.
struct Values {
  uint64_t count = 0;
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
};

// A ByteRange has consecutive bytes. An Exchange has the byte ranges that an all-to-all sends to and receives
// from each member, by index among the members.
struct ByteRange {
  size_t start = 0, length = 0;
};
struct Exchange {
  std::vector<ByteRange> sent, received;
};

class GlooCollectives {
 public:
  // `members` has positions in the mesh's group, ascending, including this member's own position.
  GlooCollectives(GlooMesh* mesh, std::vector<int> members);

  int size() const { return static_cast<int>(members_.size()); }
  int own() const { return own_; }  // index among the members
  const std::vector<int>& members() const { return members_; }

  // In place.
  Status all_reduce(void* data, const Values& values, Call* call);
  // `input` has `values.count` elements for each member; `output` may be this member's part of `input`.
  Status reduce_scatter(const void* input, void* output, const Values& values, Call* call);
  // `input` may be this member's part of `output`.
  Status all_gather(const void* input, void* output, size_t input_bytes, Call* call);
  // In place; `root`: index among the members.
  Status broadcast(void* data, size_t bytes, int root, Call* call);
  Status all_to_all(const void* input, void* output, const Exchange& exchange, Call* call);
  // Checks for an all-to-all with unequal parts, before data is sent, that every member expects the sizes
  // that the other members send.
  Status agree_on_parts(const Parts& parts, Call* call);

 private:
  struct Range {
    uint64_t start, length;
  };
  Range part_of(uint64_t count, int index) const;
  char* scratch(uint64_t chunk, int index) const;
  void reserve(size_t part_bytes);
  void combine(uint64_t index, const Values& values, const void* own, void* output) const;
  Status all_reduce_direct(char* data, const Values& values, Call* call);
  Status all_reduce_in_parts(char* data, const Values& values, Call* call);

  GlooMesh* const mesh_;
  const std::vector<int> members_;
  int own_ = 0;
  // two buffers for the other members' data, which alternate from chunk to chunk
  std::vector<char> scratch_;
  size_t part_bytes_ = 0;
};

}  // namespace mtl::comm::gloo
