// Runs cross_entropy_forward_backward (see cross_entropy.cc) as its two component operations, and describes
// which labels both accept.
#pragma once

#include "core/op_parts.h"

namespace mtl {

struct CrossEntropyRescale {
  enum Tensors { kOutput, kRowSum, kRowMaximum, kGroupMaximum };
};
struct CrossEntropyStatistics {
  enum Tensors { kRowMaximum, kRowSum, kLabelLogit, kLogits, kLabels };
  enum Attributes { kFirstColumn, kNumColumns, kSoftCap };
};
struct CrossEntropyForwardBackward {
  enum Tensors { kLogitGradient, kLoss, kRowMaximum, kRowSum, kLabelLogit, kLogits, kLabels, kWeights };
  enum Attributes { kFirstColumn, kNumColumns, kVocabularySize, kIgnoreIndex, kFirstRow, kSoftCap };
};
struct CrossEntropyBackward {
  enum Tensors { kLogitGradient, kLoss, kLogits, kLabels, kRowMaximum, kRowSum, kLabelLogit, kWeights };
  enum Attributes { kFirstColumn, kNumColumns, kVocabularySize, kIgnoreIndex, kFirstRow, kSoftCap };
};

Status cross_entropy_in_parts(const OpCall& call, FindKernel find);

struct LabelRange {
  int64_t end;        // labels are in [0, end)
  int64_t ignored;    // rows with this label are ignored; INT64_MIN: none
  int64_t first_row;  // the number of row 0 in errors
};

// Returns the label parameters of a call of cross_entropy_backward or cross_entropy_forward_backward.
LabelRange label_range(const OpCall& call);

// Returns MTL_INDEX unless every label is in range, is ignored or has the weight 0. The labels must be in
// host memory.
Status expect_labels(const OpCall& call, int labels, int weights);

}  // namespace mtl
