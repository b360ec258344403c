// Finds the group of each row, given the offsets of groups of consecutive rows.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

// Walks through a thread's rows in ascending order and returns the group of each row.
class GroupWalk {
 public:
  GroupWalk(const int32_t* offsets, int64_t groups) : offsets_(offsets), groups_(groups) {}

  // Returns the index of a row's group. For a row after the last group, returns the number of groups.
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
