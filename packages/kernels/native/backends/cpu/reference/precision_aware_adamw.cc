#include "ops/precision_aware_adamw.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/reference/element.h"

namespace mtl::reference {
namespace {

using Op = PrecisionAwareAdamw;

// Remainders are stored as bytes, which may begin at an odd address.
uint16_t get_half(const TensorView& tensor, int64_t index) {
  uint16_t half;
  std::memcpy(&half, static_cast<const char*>(tensor.data) + index * sizeof half, sizeof half);
  return half;
}

void set_half(const TensorView& tensor, int64_t index, uint16_t half) {
  std::memcpy(static_cast<char*>(tensor.data) + index * sizeof half, &half, sizeof half);
}

float joined(const TensorView& rounded, const TensorView& remainder, int64_t index) {
  const uint32_t bits = join_bits({get_half(rounded, index), get_half(remainder, index)});
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void split(const TensorView& rounded, const TensorView& remainder, int64_t index, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const SplitBits parts = split_bits(bits);
  set_half(rounded, index, parts.rounded);
  set_half(remainder, index, parts.remainder);
}

// One of the two moments: its values are read in full, changed, and written with new scales.
class Moment {
 public:
  Moment(const OpCall& call, int values, int scales, std::vector<int64_t> segments)
      : values_(call.tensor(values)),
        scales_(call.has(scales) ? &call.tensor(scales) : nullptr),
        segments_(std::move(segments)) {
    for (int64_t index = 0; index < values_.size(); ++index) numbers_.push_back(get(values_, index) * scale_at(index));
  }

  double& operator[](int64_t index) { return numbers_[index]; }

  void write() {
    if (scales_ != nullptr) {
      for (int64_t segment = 0; segment < scales_->size(); ++segment) {
        double largest = 0.0;
        for (size_t index = 0; index < numbers_.size(); ++index) {
          if (segments_[index] == segment) largest = std::max(largest, std::fabs(numbers_[index]));
        }
        set(*scales_, segment, float16_scale(static_cast<float>(largest)));
      }
    }
    for (size_t index = 0; index < numbers_.size(); ++index) {
      const double scale = scale_at(static_cast<int64_t>(index));
      set(values_, static_cast<int64_t>(index), scale > 0.0 ? numbers_[index] / scale : 0.0);
    }
  }

 private:
  double scale_at(int64_t index) const {
    if (scales_ == nullptr) return 1.0;
    return segments_[index] < scales_->size() ? get(*scales_, segments_[index]) : 0.0;
  }

  const TensorView& values_;
  const TensorView* scales_;
  std::vector<int64_t> segments_;
  std::vector<double> numbers_;
};

Status adamw(const OpCall& call) {
  const TensorView &parameter = call.tensor(Op::kParameter), &gradients = call.tensor(Op::kGradient),
                   &scalars = call.tensor(Op::kScalars), &segments = call.tensor(Op::kSegments);
  const int64_t size = gradients.size();
  if (get(scalars, 4) != 0.0) {
    const double rate = get(scalars, 0), correction1 = get(scalars, 1), correction2 = get(scalars, 2);
    const double beta1 = call.attribute(Op::kBeta1), beta2 = call.attribute(Op::kBeta2);
    std::vector<int64_t> segment_of;
    for (int64_t index = 0, segment = 0; index < size; ++index) {
      while (segment < segments.dim(0) && get_integer(segments, 2 * segment) <= index) ++segment;
      segment_of.push_back(segment);
    }
    Moment first(call, Op::kFirstMoment, Op::kFirstScales, segment_of);
    Moment second(call, Op::kSecondMoment, Op::kSecondScales, segment_of);
    for (int64_t index = 0; index < size; ++index) {
      const int64_t segment = segment_of[index];
      const bool decays = segment < segments.dim(0) && get_integer(segments, 2 * segment + 1) != 0;
      const double gradient = get(gradients, index) * get(scalars, 3);
      first[index] = beta1 * first[index] + (1.0 - beta1) * gradient;
      second[index] = beta2 * second[index] + (1.0 - beta2) * gradient * gradient;
      const bool is_split = call.has(Op::kRemainder);
      double p = is_split ? joined(parameter, call.tensor(Op::kRemainder), index) : get(parameter, index);
      if (decays) p -= rate * call.attribute(Op::kWeightDecay) * p;
      p -= rate * (first[index] / correction1) / (std::sqrt(second[index] / correction2) + call.attribute(Op::kEpsilon));
      if (is_split) {
        split(parameter, call.tensor(Op::kRemainder), index, static_cast<float>(p));
      } else {
        set(parameter, index, p);
      }
      if (call.has(Op::kModelParameter)) set(call.tensor(Op::kModelParameter), index, get(parameter, index));
    }
    first.write();
    second.write();
  }
  if (call.flag(Op::kClearGradient)) {
    for (int64_t index = 0; index < size; ++index) set(gradients, index, 0.0);
  }
  return ok_status();
}

Status split_all(const OpCall& call) {
  const TensorView& input = call.tensor(SplitRemainder::kInput);
  for (int64_t index = 0; index < input.size(); ++index) {
    split(call.tensor(SplitRemainder::kRounded), call.tensor(SplitRemainder::kRemainder), index,
          static_cast<float>(get(input, index)));
  }
  return ok_status();
}

Status join_all(const OpCall& call) {
  const TensorView& output = call.tensor(JoinRemainder::kOutput);
  for (int64_t index = 0; index < output.size(); ++index) {
    set(output, index, joined(call.tensor(JoinRemainder::kRounded), call.tensor(JoinRemainder::kRemainder), index));
  }
  return ok_status();
}

MTL_REGISTER_REFERENCE("precision_aware_adamw", adamw);
MTL_REGISTER_REFERENCE("split_remainder", split_all);
MTL_REGISTER_REFERENCE("join_remainder", join_all);

}  // namespace
}  // namespace mtl::reference
