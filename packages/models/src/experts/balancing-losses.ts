import type { Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import {
  add,
  biasDropoutResidualForward,
  matmul,
  routerStatisticsBackward,
  scale,
  Tensor,
} from '@mtl/kernels';
import type { LayerLosses } from '../blocks/stage-losses.js';
import type { ScoredLoad } from '../routing/expert-load.js';
import { type RouterEntropy, RouterSums } from '../routing/router-sums.js';
import type { BalancingLoss, ExpertsSpecification } from './experts-specification.js';

/** For each type of loss, its name in reports, as in Megatron-LM. */
export const balancingLossNames = {
  aux_loss: 'load_balancing_loss',
  seq_aux_loss: 'seq_load_balancing_loss',
  global_aux_loss: 'global_load_balancing_loss',
  z: 'z_loss',
} as const;

/** Returns the names of the losses that a mixture of experts computes. */
export const listLosses = ({
  balancingLosses,
  zLossCoefficient,
}: ExpertsSpecification): readonly string[] => [
  ...balancingLosses.map(({ type }) => balancingLossNames[type]),
  ...(zLossCoefficient === undefined ? [] : [balancingLossNames.z]),
];

interface BalancingLossesOptions {
  /** float32 [T, E]. Row t belongs to sequence `t % numSequences`. */
  readonly logits: Variable;
  readonly specification: ExpertsSpecification;
  readonly numSequences: number;
  /** The processes that share the rows of these sequences. If it is undefined, this process has all rows. */
  readonly group: ProcessGroup | undefined;
  readonly losses: LayerLosses;
  /** The loads that `global_aux_loss` uses. */
  readonly scoredLoad?: ScoredLoad | undefined;
  /** True if the current forward pass counts in `scoredLoad` and `entropy`. */
  readonly countsLoads: boolean;
  /** Receives the entropies of the router's scores for this process's rows. */
  readonly entropy?: RouterEntropy | undefined;
}

/** Losses whose sums over processes are still being computed. */
export interface PendingLosses {
  /** Waits for the sums and adds the losses to the layer's losses. */
  finish(): void;
}

/**
 * Starts to compute the router's losses. `finish` adds them to the layer's losses.
 *
 * The balancing loss of n rows (the rows of a sequence or of a micro-batch) is `E / (k * n^2)` times a sum
 * over experts. Each expert's term is how many rows would choose the expert by score, times the sum of the
 * expert's scores over the rows. The loss is 1 if loads are even (see Switch Transformer, Fedus et al. 2021;
 * for sequences, DeepSeek-V3). The z-loss of a row is the squared log-sum-exp of its logits. Both losses are
 * sums over sequences or rows. The factor of a loss (see `LayerLosses.factor`) turns the sum into a mean.
 *
 * One pass over the logits computes all losses. A single all-reduce of their sums overlaps with computation
 * until `finish` is called. The losses share one gradient.
 */
export function startBalancingLosses(tape: Tape, options: BalancingLossesOptions): PendingLosses {
  const { specification, logits, group, scoredLoad, countsLoads, entropy } = options;
  const { balancingLosses, topK, router } = specification;
  const isOfSequences = balancingLosses.some(({ type }) => type === 'seq_aux_loss');
  const sums = new RouterSums({
    logits: logits.tensor,
    topK,
    scoreFunction: router.scoreFunction,
    numSequences: isOfSequences ? options.numSequences : 1,
  });
  if (countsLoads && balancingLosses.some(({ type }) => type === 'global_aux_loss')) {
    // adds this process's counts, before the all-reduce sums them over processes
    scoredLoad!.add(sums.counts);
  }
  if (countsLoads && entropy?.isWatched === true) entropy.add(sums.entropies, logits.tensor.dim(0));
  if (group !== undefined) sums.reduce(group);
  return { finish: () => addLosses(tape, options, sums) };
}

/**
 * A balancing loss: `factor` times the sum over all i of `load[i] * scoreSums[i]`. The load has no gradient.
 */
interface Balance {
  readonly name: string;
  /** [N, E], or [1, E] for all sequences together. */
  readonly load: Tensor;
  readonly scoreSums: Tensor;
  readonly factor: number;
}

function makeBalance(
  { type }: BalancingLoss,
  { logits, specification, group, scoredLoad }: BalancingLossesOptions,
  sums: RouterSums,
): Balance {
  const name = balancingLossNames[type];
  const { totalCounts, totalScoreSums, numSequences } = sums;
  if (type === 'global_aux_loss') {
    // the load is from the previous step and is 1 for an expert with an even share
    return { name, load: scoredLoad!.tensor, scoreSums: totalScoreSums, factor: 1 };
  }
  const numRows = logits.tensor.dim(0) * (group?.size ?? 1);
  const computeFactor = (rows: number): number =>
    specification.numExperts / (specification.topK * rows * rows);
  return type === 'aux_loss'
    ? { name, load: totalCounts, scoreSums: totalScoreSums, factor: computeFactor(numRows) }
    : { name, load: sums.counts, scoreSums: sums.scoreSums, factor: computeFactor(numRows / numSequences) };
}

/**
 * Computes `factor` times the sum of `load[i] * scoreSums[i]`, float32 [1]. Both tensors have the same size.
 */
function scaledProduct({ load, scoreSums, factor }: Balance): Tensor {
  using row = load.reshape([1, load.size]);
  using column = scoreSums.reshape([scoreSums.size, 1]);
  using product = matmul({ left: row, right: column });
  using vector = product.reshape([1]);
  return scale({ input: vector, factor });
}

function addLosses(tape: Tape, options: BalancingLossesOptions, sums: RouterSums): void {
  const { logits, losses, specification } = options;
  sums.finish();
  const balances = specification.balancingLosses.map((loss) => makeBalance(loss, options, sums));
  const squares =
    specification.zLossCoefficient === undefined
      ? []
      : [{ name: balancingLossNames.z, value: sums.totalSquares.view({ shape: [1] }) }];
  const made = [
    ...balances.map((balance) => ({ name: balance.name, value: scaledProduct(balance) })),
    ...squares,
  ].map(({ name, value }) => {
    const result = tape.result(value, { requiresGradient: logits.requiresGradient });
    return { name, losses: result, weights: losses.factor(name) };
  });
  let isRecorded = false;
  tape.record(
    made.map((loss) => loss.losses),
    () => {
      isRecorded = true;
      const savedLogits = tape.save(logits);
      const savedWeights = new Map(made.map(({ name, weights }) => [name, tape.save(weights)]));
      return {
        name: 'balancing losses',
        inputs: [logits],
        parameters: [],
        saved: [savedLogits, ...savedWeights.values(), { release: () => sums.dispose() }],
        backward: () => {
          const findWeight = (name: string) => savedWeights.get(name)!.tensor;
          using scoreGradients = computeScoreGradients(balances, { findWeight, sums });
          using squareGradients = squares[0] && computeSquareGradients(findWeight(squares[0].name), sums);
          const { dtype, device, shape } = savedLogits.tensor;
          const logitsGradient = Tensor.empty({ shape, dtype, device });
          routerStatisticsBackward({
            logitsGradient,
            scoreGradients,
            squareGradients,
            logits: savedLogits.tensor,
            scoreFunction: specification.router.scoreFunction,
            numSequences: sums.numSequences,
          });
          return [logitsGradient];
        },
      };
    },
  );
  if (!isRecorded) sums.dispose();
  for (const loss of made) losses.add(tape, loss);
}

interface GradientOptions {
  /** Returns the weight of a loss, float32 [1]. */
  readonly findWeight: (name: string) => Tensor;
  readonly sums: RouterSums;
}

/**
 * Returns the gradient [N, E] with respect to the sums of scores, or undefined if no loss depends on these
 * sums.
 */
function computeScoreGradients(
  balances: readonly Balance[],
  { findWeight, sums }: GradientOptions,
): Tensor | undefined {
  const computeGradient = ({ name, load, factor }: Balance): Tensor => {
    using column = load.reshape([load.size, 1]);
    using weight = findWeight(name).reshape([1, 1]);
    using weighted = matmul({ left: column, right: weight });
    using scaled = scale({ input: weighted, factor });
    return scaled.reshape([load.size / sums.totalCounts.size, sums.totalCounts.size]);
  };
  const sumGradients = (each: readonly Balance[]): Tensor | undefined =>
    each.map(computeGradient).reduce<Tensor | undefined>((total, gradient) => {
      if (total === undefined) return gradient;
      add({ output: total, left: total, right: gradient });
      gradient.dispose();
      return total;
    }, undefined);
  const isOfSequences = ({ load }: Balance): boolean => load.size > sums.totalCounts.size;
  const ofSequences = sumGradients(balances.filter(isOfSequences));
  const ofAll = sumGradients(balances.filter((balance) => !isOfSequences(balance)));
  if (ofSequences === undefined || ofAll === undefined) return ofSequences ?? ofAll;
  addToRows(ofSequences, ofAll);
  ofAll.dispose();
  return ofSequences;
}

/**
 * Returns the gradient [N] with respect to the sums of squared log-sum-exps. Each element is the weight of
 * the z-loss.
 */
function computeSquareGradients(weight: Tensor, { numSequences }: RouterSums): Tensor {
  const { dtype, device } = weight;
  const gradients = Tensor.zeros({ shape: [numSequences, 1], dtype, device });
  addToRows(gradients, weight);
  const vector = gradients.reshape([numSequences]);
  gradients.dispose();
  return vector;
}

/** Adds `row` to each row of `matrix`, in place. */
function addToRows(matrix: Tensor, row: Tensor): void {
  using rows = matrix.reshape([matrix.dim(0), 1, row.size]);
  using bias = row.reshape([row.size]);
  biasDropoutResidualForward({ output: rows, input: rows, bias });
}
