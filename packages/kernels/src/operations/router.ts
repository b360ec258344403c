import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * The function that converts a router's logits to scores. `sqrtsoftplus` is the square root of ln(1 + e^x).
 */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

const scoreFunctions: readonly RouterScoreFunction[] = ['softmax', 'sigmoid', 'sqrtsoftplus'];

/** Returns the number by which native code identifies a score function. */
function scoreFunctionNumber(scoreFunction: RouterScoreFunction): number {
  const number = scoreFunctions.indexOf(scoreFunction);
  if (number >= 0) return number;
  throw new UsageError('MTL_ARGUMENT', `unknown score function ${String(scoreFunction)}`, {
    expected: scoreFunctions.join(', '),
  });
}

export interface RouterScoreOptions {
  readonly scoreFunction: RouterScoreFunction;
  /**
   * True to compute the softmax over all experts, before the selection, so that a row's probabilities do not
   * sum to 1. Default: false, which computes the softmax over the selected experts.
   */
  readonly preSoftmax?: boolean | undefined;
  /** The factor of all probabilities. Default 1. */
  readonly scalingFactor?: number | undefined;
}

export interface RouterForwardOptions extends RouterScoreOptions {
  /** `[T, k]`, of the dtype of `logits` */
  readonly probabilities: Tensor;
  /**
   * `[T, k]` int32: the selected experts in descending order of the selection score. If scores are equal, the
   * lower expert index comes first.
   */
  readonly experts: Tensor;
  /** `[..., E]` float32 (float64 on device `reference`), with T rows */
  readonly logits: Tensor;
  /** [E] float32: added to the scores for the selection, but not to the probabilities. */
  readonly expertBias?: Tensor | undefined;
  /** `[T, k]` int32: the experts to use. If it is given, no experts are selected. */
  readonly chosen?: Tensor | undefined;
  /** The number of groups of equal size. A row uses `groupTopK` groups. Default: 0, which means no groups. */
  readonly numGroups?: number | undefined;
  readonly groupTopK?: number | undefined;
}

/**
 * Selects the k experts of each row and computes their weights: a softmax, or scores divided by their sum if
 * k is more than 1 (DeepSeek-AI 2024, arXiv 2412.19437). Groups are ranked by the sums of their k /
 * groupTopK largest scores.
 *
 * @param options must contain `topK`, the number k, if the outputs are omitted
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for an invalid chosen expert
 */
export const routerForward = returningOperation<
  RouterForwardOptions,
  'probabilities' | 'experts',
  { readonly topK: number }
>(
  'routerForward',
  {
    probabilities: ({ logits, topK }) => like(logits, [logits.size / logits.dim(-1), topK]),
    experts: ({ logits, topK }) => ({
      shape: [logits.size / logits.dim(-1), topK],
      dtype: 'int32',
      device: logits.device,
    }),
  },
  (options) => {
    const { probabilities, experts, logits, expertBias, chosen } = options;
    const { preSoftmax = false, scalingFactor = 1, numGroups = 0, groupTopK = 0 } = options;
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    const tensors = { probabilities, experts, logits, expertBias, chosen };
    const attributes = { scoreFunction, preSoftmax, scalingFactor, numGroups, groupTopK };
    runOperation('router_forward', { ...tensors, ...attributes });
  },
);

export interface RouterBackwardOptions extends RouterScoreOptions {
  /** `[..., E]` */
  readonly logitsGradient: Tensor;
  /** [T, k] */
  readonly probabilitiesGradient: Tensor;
  /** The operand of the forward call. */
  readonly logits: Tensor;
  /** `[T, k]` int32: the experts that the forward call has returned */
  readonly experts: Tensor;
}

/**
 * Computes the gradient of the logits from the gradient of the probabilities. The selection has no gradient.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other,
 *   `MTL_INDEX` for an invalid expert
 */
export const routerBackward = returningOperation<RouterBackwardOptions, 'logitsGradient'>(
  'routerBackward',
  { logitsGradient: ({ logits }) => like(logits) },
  (options) => {
    const { logitsGradient, probabilitiesGradient, logits, experts } = options;
    const { preSoftmax = false, scalingFactor = 1 } = options;
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    const tensors = { logitsGradient, probabilitiesGradient, logits, experts };
    runOperation('router_backward', { ...tensors, scoreFunction, preSoftmax, scalingFactor });
  },
);

export interface RouterStatisticsForwardOptions {
  /**
   * `[N, E]`, of the dtype of `logits`: how often each expert is among the `topK` largest scores. If scores
   * are equal, the expert with the lower index is chosen.
   */
  readonly counts: Tensor;
  /** `[N, E]`, of the dtype of `logits`: the sums of the scores */
  readonly scoreSums: Tensor;
  /** `[N]`: the sums of ln(sum over experts of e^logit)^2 */
  readonly squaredLogSumExp: Tensor;
  /** `[N]`: the sums of the scores' entropies, in nats */
  readonly entropy: Tensor;
  /** `[..., E]` float32 (float64 on device `reference`) with T rows. Row t belongs to sequence t % N. */
  readonly logits: Tensor;
  /** [T] float32: a row whose weight is 0 is padding and does not count; all other rows count once. */
  readonly rowWeights?: Tensor | undefined;
  readonly topK: number;
  /** Scores of `sigmoid` and `sqrtsoftplus` are normalized: divided by their sum. */
  readonly scoreFunction: RouterScoreFunction;
  /** N: the number of sequences. */
  readonly numSequences: number;
}

/**
 * Computes sums over the rows of each sequence, for a router's balancing losses and metrics. The scores do
 * not include a bias and do not depend on groups (Fedus et al. 2021, arXiv 2101.03961; Zoph et al. 2022,
 * arXiv 2202.08906).
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other
 */
export const routerStatisticsForward = returningOperation<
  RouterStatisticsForwardOptions,
  'counts' | 'scoreSums' | 'squaredLogSumExp' | 'entropy'
>(
  'routerStatisticsForward',
  {
    counts: ({ logits, numSequences }) => like(logits, [numSequences, logits.dim(-1)]),
    scoreSums: ({ logits, numSequences }) => like(logits, [numSequences, logits.dim(-1)]),
    squaredLogSumExp: ({ logits, numSequences }) => like(logits, [numSequences]),
    entropy: ({ logits, numSequences }) => like(logits, [numSequences]),
  },
  (options) => {
    const { counts, scoreSums, squaredLogSumExp, entropy, logits, rowWeights } = options;
    const { topK, numSequences } = options;
    const tensors = { counts, scoreSums, squaredLogSumExp, entropy, logits, rowWeights };
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    runOperation('router_statistics_forward', { ...tensors, topK, scoreFunction, numSequences });
  },
);

export interface RouterStatisticsBackwardOptions {
  /** `[..., E]` */
  readonly logitsGradient: Tensor;
  /** [N, E]; may be omitted if nothing depends on `scoreSums` */
  readonly scoreGradients?: Tensor | undefined;
  /** [N]; omitted where nothing depends on `squaredLogSumExp` */
  readonly squareGradients?: Tensor | undefined;
  /** The operand of the forward call. */
  readonly logits: Tensor;
  readonly rowWeights?: Tensor | undefined;
  readonly scoreFunction: RouterScoreFunction;
  readonly numSequences: number;
}

/**
 * Computes the gradient of the logits from the gradients of `scoreSums` and `squaredLogSumExp`.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit
 */
export const routerStatisticsBackward = returningOperation<RouterStatisticsBackwardOptions, 'logitsGradient'>(
  'routerStatisticsBackward',
  { logitsGradient: ({ logits }) => like(logits) },
  (options) => {
    const { logitsGradient, scoreGradients, squareGradients, logits, rowWeights, numSequences } = options;
    const tensors = { logitsGradient, scoreGradients, squareGradients, logits, rowWeights };
    const scoreFunction = scoreFunctionNumber(options.scoreFunction);
    runOperation('router_statistics_backward', { ...tensors, scoreFunction, numSequences });
  },
);

export interface UpdateExpertBiasOptions {
  /** [E] float32, updated */
  readonly expertBias: Tensor;
  /** [E] int64: the rows of each expert */
  readonly counts: Tensor;
  readonly rate: number;
}

/**
 * expertBias[e] += rate * sign(mean of counts - counts[e]). This balances the experts without a loss (Wang et
 * al. 2024, arXiv 2408.15664). The comparison uses integers.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit each other
 */
export const updateExpertBias = checkedOperation(
  'updateExpertBias',
  ({ expertBias, counts, rate }: UpdateExpertBiasOptions): void => {
    runOperation('update_expert_bias', { expertBias, counts, rate });
  },
);

export interface AddCountsOptions {
  /** [E] int64. The call adds to it. */
  readonly counts: Tensor;
  /** `[E + 1]` int32, of `groupByExpert` */
  readonly offsets: Tensor;
}

/**
 * counts[e] += offsets[e + 1] - offsets[e]. Over many calls, this counts the rows of each expert.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other
 */
export const addCounts = checkedOperation('addCounts', ({ counts, offsets }: AddCountsOptions): void => {
  runOperation('add_counts', { counts, offsets });
});

export interface RowGateForwardOptions {
  /** [..., H] */
  readonly output: Tensor;
  /** [..., H] */
  readonly input: Tensor;
  /** float32 [rows] (float64 over float64) */
  readonly logits: Tensor;
}

/**
 * output = sigmoid(logit) * input, with one logit per row. This is the gate of Qwen2-MoE's shared experts.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other
 */
export const rowGateForward = returningOperation<RowGateForwardOptions, 'output'>(
  'rowGateForward',
  { output: ({ input }) => like(input) },
  ({ output, input, logits }) => {
    runOperation('row_gate_forward', { output, input, logits });
  },
);

export interface RowGateBackwardOptions {
  /** [..., H] */
  readonly inputGradient: Tensor;
  /** [rows] */
  readonly logitsGradient: Tensor;
  /** [..., H] */
  readonly outputGradient: Tensor;
  readonly input: Tensor;
  readonly logits: Tensor;
}

/**
 * inputGradient = sigmoid(logit) * outputGradient; logitsGradient = sigmoid'(logit) times the sum over the
 * row of outputGradient * input.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other
 */
export const rowGateBackward = returningOperation<RowGateBackwardOptions, 'inputGradient' | 'logitsGradient'>(
  'rowGateBackward',
  { inputGradient: ({ input }) => like(input), logitsGradient: ({ logits }) => like(logits) },
  ({ inputGradient, logitsGradient, outputGradient, input, logits }) => {
    runOperation('row_gate_backward', { inputGradient, logitsGradient, outputGradient, input, logits });
  },
);
