// Finds the group of each row from the offsets of groups of consecutive rows.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Walks through the rows of a thread in ascending order and returns the group of each.
class GroupWalk {
 public:
  GroupWalk(const int32_t* offsets, int64_t groups) : offsets_(offsets), groups_(groups) {}

  // Returns the group of a row, or the number of groups for a row after the last group.
  int64_t group_of(int64_t row) {
    while (group_ < groups_ && offsets_[group_ + 1] <= row) ++group_;
    return group_;
  }

 private:
  const int32_t* const offsets_;
  const int64_t groups_;
  int64_t group_ = 0;
};

}  // namespace
}  // namespace mtl
