#include "core/shared_memory.h"

#include <algorithm>

namespace mtl {
namespace {

// Any number of steps, from 0 to `count`, of `stride` bytes each.
struct Steps {
  int64_t stride, count;
};

// The steps by which every byte of a view (or of two views) can be reached from the first byte. After `sort`,
// larger strides come first.
struct StepList {
  Steps at[2 * (kMaxRank + 1)];
  int size = 0;

  void add(int64_t stride, int64_t count) {
    if (count < 1) return;
    for (int i = 0; i < size; ++i) {
      if (at[i].stride == stride) return static_cast<void>(at[i].count += count);
    }
    at[size++] = {stride, count};
  }
  void add_all(const TensorView& view) {
    const int64_t element = static_cast<int64_t>(size_of(view.dtype));
    for (int dim = 0; dim < view.rank; ++dim) add(view.stride(dim) * element, view.dim(dim) - 1);
    add(1, element - 1);
  }
  void sort() {
    std::sort(at, at + size, [](const Steps& left, const Steps& right) { return left.stride > right.stride; });
  }
  // Returns the distance in bytes from the first byte to the last byte that can be reached with the steps
  // from index `first` on.
  int64_t extent(int first = 0) const {
    int64_t bytes = 0;
    for (int i = first; i < size; ++i) bytes += at[i].stride * at[i].count;
    return bytes;
  }
};

// The maximum number of tries in `adds_up`. If dimensions are nested, each needs only a few tries. The limit
// ends the search if they are not nested.
constexpr int kMaxTries = 10000;

// Returns true if `distance` is a sum of steps from index `first` on, each taken any allowed number of times.
// Also returns true if this takes too many tries.
bool adds_up(const StepList& steps, int first, int64_t distance, int* tries) {
  if (first == steps.size || ++*tries > kMaxTries) return distance == 0 || *tries > kMaxTries;
  const Steps& step = steps.at[first];
  const int64_t rest = distance - steps.extent(first + 1), most = std::min(step.count, distance / step.stride);
  for (int64_t count = rest <= 0 ? 0 : (rest + step.stride - 1) / step.stride; count <= most; ++count) {
    if (adds_up(steps, first + 1, distance - count * step.stride, tries)) return true;
  }
  return false;
}

int64_t extent_of(const TensorView& view) {
  if (!view.is_strided) return view.size() * static_cast<int64_t>(size_of(view.dtype)) - 1;
  StepList steps;
  steps.add_all(view);
  return steps.extent();
}

}  // namespace

bool overlaps_itself(const TensorView& view) {
  if (!view.is_strided || view.size() == 0) return false;
  Steps dims[kMaxRank];
  int count = 0;
  for (int dim = 0; dim < view.rank; ++dim) {
    if (view.dim(dim) > 1) dims[count++] = {view.stride(dim), view.dim(dim) - 1};
  }
  std::sort(dims, dims + count, [](const Steps& left, const Steps& right) { return left.stride < right.stride; });
  int64_t extent = 0;
  for (int i = 0; i < count; ++i) {
    if (dims[i].stride <= extent) return true;
    extent += dims[i].stride * dims[i].count;
  }
  return false;
}

bool overlap(const TensorView& left, const TensorView& right) {
  if (left.size() == 0 || right.size() == 0) return false;
  // the addresses are compared as integers, because the views may belong to different allocations
  const int64_t from = static_cast<int64_t>(reinterpret_cast<uintptr_t>(left.data)),
                to = static_cast<int64_t>(reinterpret_cast<uintptr_t>(right.data));
  if (to > from + extent_of(left) || from > to + extent_of(right)) return false;
  if (!left.is_strided && !right.is_strided) return true;
  // the views share a byte if left + steps = right + steps, for some steps. The right view's steps are
  // counted backwards from its end
  StepList steps;
  steps.add_all(left);
  steps.add_all(right);
  steps.sort();
  int tries = 0;
  return adds_up(steps, 0, to - from + extent_of(right), &tries);
}

}  // namespace mtl
