import type { Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { matmul, routerStatisticsBackward, routerStatisticsForward, scale, Tensor } from '@mtl/kernels';
import type { LayerLosses } from '../blocks/layer-losses.js';
import type { BalancingLoss, ExpertsSpecification } from './experts-specification.js';
import type { ScoredLoad } from './scored-load.js';

/** The names of the losses in reports, by type: those of Megatron-LM. */
export const balancingLossNames = {
  aux_loss: 'load_balancing_loss',
  seq_aux_loss: 'seq_load_balancing_loss',
  global_aux_loss: 'global_load_balancing_loss',
  z: 'z_loss',
} as const;

/** The losses that a mixture of experts makes, by name. */
export const lossesOf = ({ balancingLosses, zLossCoefficient }: ExpertsSpecification): readonly string[] => [
  ...balancingLosses.map(({ type }) => balancingLossNames[type]),
  ...(zLossCoefficient === undefined ? [] : [balancingLossNames.z]),
];

export interface BalancingLossesOptions {
  /** float32 [T, E]: row t is of sequence t % `numSequences`. */
  readonly logits: Variable;
  readonly specification: ExpertsSpecification;
  readonly numSequences: number;
  /** The processes that share the rows of these sequences; undefined: all rows are here. */
  readonly group: ProcessGroup | undefined;
  readonly losses: LayerLosses;
  /** Of `global_aux_loss`. */
  readonly scoredLoad?: ScoredLoad | undefined;
  /** Whether this pass counts in it. */
  readonly countsLoads: boolean;
}

/**
 * Adds the losses of a router to those of its layer. Balance, of a sequence or of a micro-batch of n rows
 * (Switch Transformer, Fedus et al. 2021; for sequences DeepSeek-V3): E / (k n^2) times the sum over experts
 * of the rows that would choose one by its score, times the sum of its scores over rows; 1 where loads are
 * even. The z-loss: log-sum-exp of a row's logits, squared. They are sums over sequences or rows: the factor
 * of a loss (`LayerLosses.factor`) makes means of them.
 */
export function addBalancingLosses(tape: Tape, options: BalancingLossesOptions): void {
  const { specification, numSequences } = options;
  for (const { type } of specification.balancingLosses) {
    if (type === 'global_aux_loss') addGlobalBalance(tape, options);
    else addBalance(tape, { ...options, type, numSequences: type === 'seq_aux_loss' ? numSequences : 1 });
  }
  if (specification.zLossCoefficient !== undefined) addZLoss(tape, options);
}

/** The sums of a pass over logits: a vector of float32, whose parts are summed over processes together. */
class Statistics {
  readonly counts: Tensor;
  readonly scoreSums: Tensor;
  readonly squares: Tensor;
  readonly #all: Tensor;

  constructor(
    { logits, specification, group }: BalancingLossesOptions,
    {
      numSequences,
      countOwn = () => {},
    }: {
      readonly numSequences: number;
      /** Gets the counts of this process, before they are summed. */
      readonly countOwn?: ((counts: Tensor) => void) | undefined;
    },
  ) {
    const { device } = logits.tensor;
    const { numExperts, topK, router } = specification;
    const [perExpert, perSequence] = [numSequences * numExperts, numSequences];
    this.#all = Tensor.empty({ shape: [2 * (perExpert + perSequence)], dtype: 'float32', device });
    const part = (offset: number, shape: readonly number[]) => this.#all.view({ offset, shape });
    this.counts = part(0, [numSequences, numExperts]);
    this.scoreSums = part(perExpert, [numSequences, numExperts]);
    this.squares = part(2 * perExpert, [numSequences]);
    using entropy = part(2 * perExpert + perSequence, [numSequences]);
    routerStatisticsForward({
      counts: this.counts,
      scoreSums: this.scoreSums,
      squaredLogSumExp: this.squares,
      entropy,
      logits: logits.tensor,
      topK,
      scoreFunction: router.scoreFunction,
      numSequences,
    });
    countOwn(this.counts);
    group?.allReduce(this.#all).wait();
  }

  dispose(): void {
    for (const tensor of [this.counts, this.scoreSums, this.squares, this.#all]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The sum of products of two tensors of one size, float32 [1]. */
function dotProduct(left: Tensor, right: Tensor): Tensor {
  using row = left.reshape([1, left.size]);
  using column = right.reshape([right.size, 1]);
  const product = matmul({ left: row, right: column });
  const result = product.reshape([1]);
  product.dispose();
  return result;
}

/** Adds the balance of each sequence, or of all rows as one. */
function addBalance(
  tape: Tape,
  options: BalancingLossesOptions & { readonly type: BalancingLoss['type'] },
): void {
  const { logits, specification, numSequences, group, type } = options;
  const { numExperts, topK } = specification;
  const numRows = (logits.tensor.dim(0) * (group?.size ?? 1)) / numSequences;
  const factor = numExperts / (topK * numRows * numRows);
  const statistics = new Statistics(options, { numSequences });
  using product = dotProduct(statistics.counts, statistics.scoreSums);
  addLoss(tape, {
    ...options,
    name: balancingLossNames[type],
    value: scale({ input: product, factor }),
    statistics,
    gradients: (weight) => {
      // the counts times the weight of the loss
      using counts = statistics.counts.reshape([statistics.counts.size, 1]);
      using column = weight.reshape([1, 1]);
      using weighted = matmul({ left: counts, right: column });
      using scaled = scale({ input: weighted, factor });
      const scores = scaled.reshape(statistics.counts.shape);
      return { scores };
    },
  });
}

/**
 * Adds the balance of all tokens of the global batch by the load of the step before: of a row, the sum over
 * experts of load times score, where an even load is 1.
 */
function addGlobalBalance(tape: Tape, options: BalancingLossesOptions): void {
  const { scoredLoad, countsLoads } = options;
  const countOwn = (counts: Tensor): void => {
    if (countsLoads) scoredLoad!.add(counts);
  };
  const statistics = new Statistics(options, { numSequences: 1, countOwn });
  const load = scoredLoad!.tensor;
  addLoss(tape, {
    ...options,
    numSequences: 1,
    name: balancingLossNames.global_aux_loss,
    value: dotProduct(load, statistics.scoreSums),
    statistics,
    gradients: (weight) => {
      using column = load.reshape([load.size, 1]);
      using factor = weight.reshape([1, 1]);
      using weighted = matmul({ left: column, right: factor });
      return { scores: weighted.reshape([1, load.size]) };
    },
  });
}

function addZLoss(tape: Tape, options: BalancingLossesOptions): void {
  const statistics = new Statistics(options, { numSequences: 1 });
  addLoss(tape, {
    ...options,
    numSequences: 1,
    name: balancingLossNames.z,
    value: statistics.squares.view({ shape: [1] }),
    statistics,
    gradients: (weight) => ({ squares: weight.view({ shape: [1] }) }),
  });
}

interface AddLossOptions extends BalancingLossesOptions {
  readonly name: string;
  /** float32 [1] */
  readonly value: Tensor;
  /** They become the tape's. */
  readonly statistics: Statistics;
  /** The gradients of sums of scores and of squares by the weight of the loss, float32 [1]. */
  readonly gradients: (weight: Tensor) => { readonly scores?: Tensor; readonly squares?: Tensor };
}

function addLoss(tape: Tape, options: AddLossOptions): void {
  const { logits, losses, name, value, statistics, gradients, specification, numSequences } = options;
  const weights = losses.factor(name);
  const result = tape.result(value, { requiresGradient: logits.requiresGradient });
  let isRecorded = false;
  tape.record(result, () => {
    isRecorded = true;
    const saved = [tape.save(logits), tape.save(weights)] as const;
    return {
      name,
      inputs: [logits],
      parameters: [],
      saved: [...saved, { release: () => statistics.dispose() }],
      backward: () => {
        const [savedLogits, weight] = saved.map(({ tensor }) => tensor) as [Tensor, Tensor];
        const { scores, squares } = gradients(weight);
        const { dtype, device, shape } = savedLogits;
        const logitsGradient = Tensor.empty({ shape, dtype, device });
        routerStatisticsBackward({
          logitsGradient,
          scoreGradients: scores,
          squareGradients: squares,
          logits: savedLogits,
          scoreFunction: specification.router.scoreFunction,
          numSequences,
        });
        scores?.dispose();
        squares?.dispose();
        return [logitsGradient];
      },
    };
  });
  if (!isRecorded) statistics.dispose();
  losses.add(tape, { name, losses: result, weights });
}
