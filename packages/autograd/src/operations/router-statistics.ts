import {
  checkedOperation,
  type RouterScoreFunction,
  routerStatisticsBackward,
  routerStatisticsForward,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface RouterStatisticsOptions {
  /** `[..., E]` float32 (float64), T rows: row t is of sequence t % N. */
  readonly logits: Variable;
  /** [T] float32: a row of weight 0 is padding and counts nowhere; all others count once. */
  readonly rowWeights?: Variable | undefined;
  readonly topK: number;
  /** Scores of `sigmoid` and `sqrtsoftplus` are divided by their sum. */
  readonly scoreFunction: RouterScoreFunction;
  /** N */
  readonly numSequences: number;
}

/** Sums over the rows of each sequence. */
export interface RouterStatistics {
  /** `[N, E]` int32, without a gradient: how often an expert is one of the `topK` of largest scores */
  readonly counts: Variable;
  /** `[N, E]`: sums of scores */
  readonly scoreSums: Variable;
  /** `[N]`: sums of ln(sum over experts of e^logit)^2 */
  readonly squaredLogSumExp: Variable;
  /** `[N]`, without a gradient: sums of the entropies of scores, in nats */
  readonly entropy: Variable;
}

/**
 * Sums that balancing losses and metrics of a router are made of; gradients flow to the logits from the sums
 * of scores and of squares.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit
 */
export const routerStatistics = checkedOperation(
  'routerStatistics',
  (tape: Tape, options: RouterStatisticsOptions): RouterStatistics => {
    const { logits, rowWeights, topK, scoreFunction, numSequences } = options;
    const sums = routerStatisticsForward({
      logits: logits.tensor,
      rowWeights: rowWeights?.tensor,
      topK,
      scoreFunction,
      numSequences,
    });
    const { requiresGradient } = logits;
    const scoreSums = tape.result(sums.scoreSums, { requiresGradient });
    const squaredLogSumExp = tape.result(sums.squaredLogSumExp, { requiresGradient });
    tape.record([scoreSums, squaredLogSumExp], () => {
      const savedLogits = tape.save(logits);
      const savedWeights = rowWeights && tape.save(rowWeights);
      return {
        name: 'routerStatistics',
        inputs: [logits],
        parameters: [],
        saved: [savedLogits, savedWeights].filter((saved) => saved !== undefined),
        backward: ({ outputGradients: [scoreGradients, squareGradients] }) => [
          routerStatisticsBackward({
            scoreGradients,
            squareGradients,
            logits: savedLogits.tensor,
            rowWeights: savedWeights?.tensor,
            scoreFunction,
            numSequences,
          }),
        ],
      };
    });
    return {
      counts: tape.result(sums.counts, { requiresGradient: false }),
      scoreSums,
      squaredLogSumExp,
      entropy: tape.result(sums.entropy, { requiresGradient: false }),
    };
  },
);
