// cross_entropy_forward_backward (cross_entropy.cc) as its two halves, and which labels both take.
#pragma once

#include "core/op_parts.h"

namespace mtl {

Status cross_entropy_in_parts(const OpCall& call, FindKernel find);

struct LabelRange {
  int64_t end;        // labels are in [0, end)
  int64_t ignored;    // no row with this label counts; INT64_MIN: none is ignored
  int64_t first_row;  // the number of row 0 in errors
};

// Of a call of cross_entropy_backward or cross_entropy_forward_backward.
LabelRange label_range(const OpCall& call);

// MTL_INDEX unless all labels in host memory are in range, ignored or of weight 0.
Status expect_labels(const OpCall& call, int labels, int weights);

}  // namespace mtl
