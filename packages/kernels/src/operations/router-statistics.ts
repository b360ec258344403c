import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';
import { type RouterScoreFunction, scoreFunctionNumber } from './router.js';

export interface RouterStatisticsForwardOptions {
  /**
   * `[N, E]`, of the dtype of `logits`: how often an expert is one of the `topK` of largest scores, of equal
   * ones the lower
   */
  readonly counts: Tensor;
  /** `[N, E]`, of the dtype of `logits`: sums of scores */
  readonly scoreSums: Tensor;
  /** `[N]`: sums of ln(sum over experts of e^logit)^2 */
  readonly squaredLogSumExp: Tensor;
  /** `[N]`: sums of the entropies of scores, in nats */
  readonly entropy: Tensor;
  /** `[..., E]` float32 (float64 on device `reference`), T rows: row t is of sequence t % N */
  readonly logits: Tensor;
  /** [T] float32: a row of weight 0 is padding and counts nowhere; all others count once. */
  readonly rowWeights?: Tensor | undefined;
  readonly topK: number;
  /** Scores of `sigmoid` and `sqrtsoftplus` are divided by their sum. */
  readonly scoreFunction: RouterScoreFunction;
  /** N */
  readonly numSequences: number;
}

/**
 * Sums over the rows of each sequence, of which balancing losses and metrics of a router are made. Neither a
 * bias nor groups are part of the scores (Fedus et al. 2021, arXiv 2101.03961; Zoph et al. 2022, arXiv
 * 2202.08906).
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit
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
  /** `[N, E]`; left out where nothing depends on `scoreSums` */
  readonly scoreGradients?: Tensor | undefined;
  /** [N]; left out where nothing depends on `squaredLogSumExp` */
  readonly squareGradients?: Tensor | undefined;
  /** The operand of the forward call. */
  readonly logits: Tensor;
  readonly rowWeights?: Tensor | undefined;
  readonly scoreFunction: RouterScoreFunction;
  readonly numSequences: number;
}

/**
 * The gradient of the logits from those of `scoreSums` and `squaredLogSumExp`.
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
