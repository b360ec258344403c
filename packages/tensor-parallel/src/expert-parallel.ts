import { type LinearAdapter, Parameter, type Placement } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Slice } from '@mtl/layout';

/** The collective that sends rows to the processes that hold their experts. */
export type TokenDispatcher = 'alltoall' | 'allgather';

/**
 * The assumed routing of rows to experts in a dry run, where rows have no values. `even`: all experts are
 * chosen equally often; `first`: the first k experts are always chosen, which gives one process the most
 * rows.
 */
export type AssumedRouting = 'even' | 'first';

/**
 * How experts are sharded over processes. If undefined, or with groups of one process, this process has all
 * experts and nothing is communicated. Every process has its own rows.
 */
export interface ExpertParallel {
  /**
   * The group of processes that hold different experts (ep). Each has the same number of experts. If
   * undefined, this process has all experts.
   */
  readonly spread?: ProcessGroup | undefined;
  /**
   * The group of processes over which each expert's features are sharded (etp). If undefined, experts are not
   * sharded.
   */
  readonly sharing?: ProcessGroup | undefined;
  /**
   * The group of all processes in `spread` and `sharing`. Neighbouring ranks share an expert (etp varies
   * fastest). Required if both groups have several processes.
   */
  readonly all?: ProcessGroup | undefined;
  /** The collective for rows. Default alltoall. */
  readonly dispatcher?: TokenDispatcher | undefined;
  /** The assumed expert assignment in dry runs. Default: even. */
  readonly assumedRouting?: AssumedRouting | undefined;
}

/** Returns the number of processes with different experts, and this process's position among them. */
export const placeAmongExperts = (
  expertParallel: ExpertParallel | undefined,
): { readonly rank: number; readonly size: number } => expertParallel?.spread ?? { rank: 0, size: 1 };

const whole = (size: number): Slice => ({ start: 0, end: size });

/** Returns this process's slice of `size` items, which must be divisible by the number of processes. */
function computePart(
  place: { readonly rank: number; readonly size: number } | undefined,
  { size, what }: { readonly size: number; readonly what: string },
): Slice {
  const { rank, size: numParts } = place ?? { rank: 0, size: 1 };
  if (size % numParts === 0) {
    const each = size / numParts;
    return { start: rank * each, end: (rank + 1) * each };
  }
  throw new ConfigurationError(
    'MTL_EXPERT_PARALLEL_SIZE',
    `${size} ${what} cannot be divided evenly over ${numParts} processes`,
    { expected: `${nearestDivisors(size, numParts).join(' or ')} processes`, details: { size, numParts } },
  );
}

export interface ExpertParametersOptions {
  /** The prefix of the parameters' names, `name.weight` and `name.bias`. */
  readonly name: string;
  /** E: the number of experts on all processes. */
  readonly numExperts: number;
  /** I: the size of the input. */
  readonly inputs: number;
  /** The sizes of the output dimensions, whose product is O. */
  readonly outputs: readonly number[];
  /**
   * The dimension that contains an expert's features, which are sharded over etp: the inputs, or the last
   * output dimension.
   */
  readonly features: 'inputs' | 'outputs';
  /** Standard deviation of the initial weight. */
  readonly standardDeviation: number;
  readonly bias: boolean;
  readonly expertParallel: ExpertParallel | undefined;
}

/**
 * Makes the parameters of a linear layer of all experts: a weight [E, ...outputs, I] and a bias [E,
 * ...outputs], initially zero. The experts are sharded over ep, and the features of each expert over etp.
 *
 * @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE if experts or features cannot be sharded evenly
 */
export function expertParameters(options: ExpertParametersOptions): {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
} {
  const { name, numExperts, inputs, outputs, features, standardDeviation, bias, expertParallel } = options;
  const here = computePart(placeAmongExperts(expertParallel), { size: numExperts, what: 'experts' });
  const shape = [...outputs, inputs];
  const shared = features === 'inputs' ? outputs.length : outputs.length - 1;
  const own = computePart(expertParallel?.sharing, { size: shape[shared]!, what: 'features of an expert' });
  const slices = [here, ...shape.map((size, dim) => (dim === shared ? own : whole(size)))];
  const placement = { view: 'expert', sharded: { ep: 0, etp: 1 + shared } } as const;
  const weight = new Parameter({
    name: `${name}.weight`,
    globalShape: [numExperts, ...shape],
    slices,
    placement,
    matrices: Array.from({ length: numExperts }, (_, expert) => [
      { start: expert, end: expert + 1 },
      ...shape.map(whole),
    ]),
    initialization: { kind: 'normal', standardDeviation },
  });
  if (!bias) return { weight, bias: undefined };
  return {
    weight,
    bias: new Parameter({
      name: `${name}.bias`,
      globalShape: [numExperts, ...outputs],
      slices: slices.slice(0, -1),
      placement: features === 'outputs' ? placement : { view: 'expert', sharded: { ep: 0 } },
      initialization: { kind: 'zeros' },
      decays: false,
    }),
  };
}

export interface ExpertAdapterOptions {
  /** The prefix of the parameters' names, `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  /** The weight of `expertParameters`. */
  readonly weight: Parameter;
  /** r: the rank of the adapters. */
  readonly rank: number;
}

/**
 * Makes adapters for a layer of experts, one per expert: A [E, r, I] and B [E, ..., r], sharded by experts
 * like the weight. If the experts' features are sharded over etp, the factor that has the feature dimension
 * is sharded as well. Each process then computes a partial sum of the gradient of the factor without this
 * dimension. Initial values are the same as in `columnParallelAdapter`.
 */
export function expertAdapter({ name, weight, rank }: ExpertAdapterOptions): LinearAdapter {
  const { globalShape, slices, placement } = weight;
  const last = globalShape.length - 1;
  const ranks = whole(rank);
  const sharesInputs = placement.sharded.etp === last;
  const makePlacement = (shardedOverEtp: number | undefined): Partial<Placement> =>
    shardedOverEtp === undefined
      ? { view: 'expert', sharded: { ep: 0 }, rows: ['etp'] }
      : { view: 'expert', sharded: { ep: 0, etp: shardedOverEtp } };
  return {
    down: new Parameter({
      name: `${name}.lora_a.weight`,
      globalShape: [globalShape[0]!, rank, globalShape[last]!],
      slices: [slices[0]!, ranks, slices[last]!],
      placement: makePlacement(sharesInputs ? 2 : undefined),
      initialization: { kind: 'uniform', bound: 1 / Math.sqrt(globalShape[last]!) },
    }),
    up: new Parameter({
      name: `${name}.lora_b.weight`,
      globalShape: [...globalShape.slice(0, -1), rank],
      slices: [...slices.slice(0, -1), ranks],
      placement: makePlacement(sharesInputs ? undefined : placement.sharded.etp),
      initialization: { kind: 'zeros' },
    }),
  };
}
