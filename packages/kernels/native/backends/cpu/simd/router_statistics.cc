#include "ops/router_statistics.h"

#include "backends/cpu/simd/router_scores.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

struct Sizes {
  int64_t rows, experts, sequences;

  // The number of parts in which rows are summed. It is at most 16 and does not depend on the number of
  // threads. The parts' sums are then added in order.
  int64_t parts() const { return smaller(16, divide_up(rows, 64)); }
  int64_t first_row(int64_t part) const { return rows * part / parts(); }
};

template <typename Op>
Sizes sizes_of(const OpCall& call) {
  const TensorView& logits = call.tensor(Op::kLogits);
  return {logits.rows(), logits.dim(-1), call.integer(Op::kNumSequences)};
}

// The sums over one part's rows, and working memory for one row's logits and scores.
struct Part {
  double *score_sums, *squares, *entropies;
  float *logits, *scores;
  int32_t *counts, *chosen;

  static int64_t bytes(const Sizes& sizes) {
    const int64_t of_experts = sizes.sequences * sizes.experts;
    return round_up((of_experts + 2 * sizes.sequences) * 8 + 3 * padded(sizes.experts) * 4 + of_experts * 4, 64);
  }
  Part(char* memory, const Sizes& sizes) {
    score_sums = reinterpret_cast<double*>(memory);
    squares = score_sums + sizes.sequences * sizes.experts;
    entropies = squares + sizes.sequences;
    logits = reinterpret_cast<float*>(entropies + sizes.sequences);
    scores = logits + padded(sizes.experts);
    chosen = reinterpret_cast<int32_t*>(scores + padded(sizes.experts));
    counts = chosen + padded(sizes.experts);
  }
};

// Computes a row's scores, normalized so that they sum to 1. Returns ln(sum of e^logit).
template <ScoreFunction kFunction>
MTL_INLINE float normalize(float* scores, const float* logits, int64_t experts) {
  const Softmax softmax = softmax_of(logits, experts);
  if constexpr (kFunction == ScoreFunction::kSoftmax) {
    for (int64_t e = 0; e < experts; e += kLanes) store(scores + e, softmax.at(load(logits + e)));
  } else {
    VFloat total = {};
    for (int64_t e = 0; e < experts; e += kLanes) {
      const VFloat each = score<kFunction>(load(logits + e));
      store(scores + e, each);
      total += each;
    }
    const float divisor = sum(total) + kSmallestSum;
    for (int64_t e = 0; e < experts; e += kLanes) store(scores + e, load(scores + e) / divisor);
  }
  return softmax.maximum + logf(softmax.sum);
}

// Returns the entropy in nats. Scores below 1e-37 contribute nothing, which includes the zeros after the last
// expert.
MTL_INLINE float entropy_of(const float* scores, int64_t experts) {
  VFloat total = {};
  for (int64_t e = 0; e < experts; e += kLanes) {
    const VFloat score = load(scores + e);
    total += select(score < 1e-37f, splat(0.0f), score * natural_logarithm(score));
  }
  return -sum(total);
}

template <ScoreFunction kFunction>
void add_row(const Part& part, const float* logits, const Sizes& sizes, int64_t sequence, int64_t top_k) {
  load_logits(part.logits, logits, sizes.experts);
  const float log_sum_exp = normalize<kFunction>(part.scores, part.logits, sizes.experts);
  double* const sums = part.score_sums + sequence * sizes.experts;
  for (int64_t e = 0; e < sizes.experts; ++e) sums[e] += static_cast<double>(part.scores[e]);
  part.squares[sequence] += static_cast<double>(log_sum_exp) * static_cast<double>(log_sum_exp);
  part.entropies[sequence] += static_cast<double>(entropy_of(part.scores, sizes.experts));
  // for a softmax, experts are ranked by their logits: a softmax keeps their order, and rounding causes no
  // ties between logits
  float* const ranked = kFunction == ScoreFunction::kSoftmax ? part.logits : part.scores;
  for (int64_t e = 0; e < sizes.experts; ++e) {
    if (ranked[e] != ranked[e]) ranked[e] = __builtin_inff();
  }
  select_largest(part.chosen, kFunction == ScoreFunction::kSoftmax ? part.scores : part.logits, top_k, ranked, sizes.experts);
  for (int64_t slot = 0; slot < top_k; ++slot) ++part.counts[sequence * sizes.experts + part.chosen[slot]];
}

template <ScoreFunction kFunction>
Status forward_with(const OpCall& call) {
  using Op = RouterStatisticsForward;
  const Sizes sizes = sizes_of<Op>(call);
  const Scratch scratch(static_cast<uint64_t>(sizes.parts() * Part::bytes(sizes)));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for partial sums", call.op);
  const float *const logits = call.data<float>(Op::kLogits), *const weights = call.data<float>(Op::kRowWeights);
  const auto part_at = [&](int64_t part) { return Part(static_cast<char*>(scratch.data) + part * Part::bytes(sizes), sizes); };
  for_each(sizes.parts(), sizes.rows * sizes.experts, [&](int64_t index) {
    const Part part = part_at(index);
    for (int64_t at = 0; at < sizes.sequences * sizes.experts; ++at) part.score_sums[at] = part.counts[at] = 0;
    for (int64_t at = 0; at < sizes.sequences; ++at) part.squares[at] = part.entropies[at] = 0.0;
    for (int64_t row = sizes.first_row(index); row < sizes.first_row(index + 1); ++row) {
      if (weights != nullptr && weights[row] == 0.0f) continue;
      add_row<kFunction>(part, logits + row * sizes.experts, sizes, row % sizes.sequences, call.integer(Op::kTopK));
    }
  });
  const auto total = [&](int64_t at, auto member) {
    double sum = 0.0;
    for (int64_t part = 0; part < sizes.parts(); ++part) sum += static_cast<double>((part_at(part).*member)[at]);
    return sum;
  };
  for (int64_t at = 0; at < sizes.sequences * sizes.experts; ++at) {
    call.data<float>(Op::kCounts)[at] = static_cast<float>(total(at, &Part::counts));
    call.data<float>(Op::kScoreSums)[at] = static_cast<float>(total(at, &Part::score_sums));
  }
  for (int64_t at = 0; at < sizes.sequences; ++at) {
    call.data<float>(Op::kSquaredLogSumExp)[at] = static_cast<float>(total(at, &Part::squares));
    call.data<float>(Op::kEntropy)[at] = static_cast<float>(total(at, &Part::entropies));
  }
  return ok_status();
}

int backward_threads(const Sizes& sizes) { return threads_for(sizes.rows * sizes.experts); }
int64_t backward_bytes(const Sizes& sizes) { return backward_threads(sizes) * 2 * padded(sizes.experts) * 4; }

// Computes the gradients of a row's logits. `gradients` (may be null) contains the gradients of the row's
// scores, and `of_square` is the gradient of the square of ln(sum of e^logit).
template <ScoreFunction kFunction>
MTL_INLINE void differentiate(float* output, float* scores, const float* logits, int64_t experts, const float* gradients,
                              float of_square) {
  const Softmax softmax = softmax_of(logits, experts);
  const float log_sum_exp = normalize<kFunction>(scores, logits, experts), factor = 2.0f * log_sum_exp * of_square;
  VFloat products = {}, total = {};
  for (int64_t e = 0; e < experts; e += kLanes) {
    if (gradients != nullptr) products += load_up_to(gradients + e, experts - e) * load(scores + e);
    if constexpr (kFunction != ScoreFunction::kSoftmax) total += score<kFunction>(load(logits + e));
  }
  const float mean = sum(products), divisor = sum(total) + kSmallestSum;
  for (int64_t e = 0; e < experts; e += kLanes) {
    const VFloat x = load(logits + e);
    VFloat result = of_square == 0.0f ? VFloat{} : factor * softmax.at(x);
    if (gradients != nullptr) {
      const VFloat score_gradient = load_up_to(gradients + e, experts - e) - mean;
      if constexpr (kFunction == ScoreFunction::kSoftmax) {
        result += score_gradient * load(scores + e);
      } else {
        result += score_gradient * slope<kFunction>(x) / divisor;
      }
    }
    store_up_to(output + e, result, experts - e);
  }
}

template <ScoreFunction kFunction>
Status backward_with(const OpCall& call) {
  using Op = RouterStatisticsBackward;
  const Sizes sizes = sizes_of<Op>(call);
  const Scratch scratch(static_cast<uint64_t>(backward_bytes(sizes)));
  if (scratch.data == nullptr) return error_status("MTL_OUT_OF_MEMORY", "%s: no memory for the scores of a row", call.op);
  const float *const logits = call.data<float>(Op::kLogits), *const weights = call.data<float>(Op::kRowWeights),
              *const gradients = call.data<float>(Op::kScoreGradients), *const squares = call.data<float>(Op::kSquareGradients);
  float* const output = call.data<float>(Op::kLogitsGradient);
  const int threads = backward_threads(sizes);
  on_threads(threads, [&](int thread) {
    float *const row_logits = static_cast<float*>(scratch.data) + thread * 2 * padded(sizes.experts),
                 *const scores = row_logits + padded(sizes.experts);
    for (int64_t row = sizes.rows * thread / threads; row < sizes.rows * (thread + 1) / threads; ++row) {
      float* const to = output + row * sizes.experts;
      if (weights != nullptr && weights[row] == 0.0f) {
        for (int64_t e = 0; e < sizes.experts; ++e) to[e] = 0.0f;
        continue;
      }
      const int64_t sequence = row % sizes.sequences;
      load_logits(row_logits, logits + row * sizes.experts, sizes.experts);
      differentiate<kFunction>(to, scores, row_logits, sizes.experts,
                               gradients == nullptr ? nullptr : gradients + sequence * sizes.experts,
                               squares == nullptr ? 0.0f : squares[sequence]);
    }
  });
  return ok_status();
}

Status forward(const OpCall& call) {
  using Op = RouterStatisticsForward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  return for_score_function(static_cast<ScoreFunction>(call.integer(Op::kScoreFunction)), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return forward_with<Kind::kFunction>(call);
  });
}

Status backward(const OpCall& call) {
  using Op = RouterStatisticsBackward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  return for_score_function(static_cast<ScoreFunction>(call.integer(Op::kScoreFunction)), [&](auto* kind) {
    using Kind = __typeof__(*kind);
    return backward_with<Kind::kFunction>(call);
  });
}

Status forward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  const Sizes sizes = sizes_of<RouterStatisticsForward>(call);
  blocks->add(sizes.parts() * Part::bytes(sizes));
  return ok_status();
}

Status backward_scratch(const OpCall& call, ScratchBlocks* blocks) {
  blocks->add(backward_bytes(sizes_of<RouterStatisticsBackward>(call)));
  return ok_status();
}

MTL_REGISTER_CPU("router_statistics_forward", forward, forward_scratch);
MTL_REGISTER_CPU("router_statistics_backward", backward, backward_scratch);

}  // namespace
}  // namespace mtl
