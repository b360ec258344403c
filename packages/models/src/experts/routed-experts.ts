import {
  adaptedGroupedLinear,
  expertActivation,
  type GroupedLinearOptions,
  groupedBias,
  groupedLinear,
  Parameter,
  type Placement,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import { type DispatchedTokens, type ExpertParallel, placeAmongExperts } from '@mtl/tensor-parallel';
import { type BlockAdapter, checkAdapterDropout, type LoraSpecification } from '../blocks/lora.js';
import type { SublayerOptions } from '../blocks/sublayer.js';
import { type ExpertsSpecification, isGated } from './experts-specification.js';

const whole = (size: number): Slice => ({ start: 0, end: size });

/** Returns the part of `size` things of one of several processes, which must get as many each. */
function partOf(
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

/**
 * The experts of this process: feed-forward networks of one shape, each with a matrix in `linear_fc1.weight`
 * ([E, F, H], gated [E, 2, F, H]) and one in `linear_fc2.weight` [E, H, F], biases [E, F] or [E, 2, F] and
 * [E, H]. Experts are spread over ep, their features over etp. Each expert may have low-rank adapters.
 */
export class RoutedExperts {
  readonly parameters: readonly Parameter[];
  /** Low-rank adapters, whose factors are among `parameters`. */
  readonly adapters: readonly BlockAdapter[];
  readonly #specification: ExpertsSpecification;
  readonly #up: Parameter;
  readonly #upBias: Parameter | undefined;
  readonly #down: Parameter;
  readonly #downBias: Parameter | undefined;
  readonly #upAdapter: BlockAdapter | undefined;
  readonly #downAdapter: BlockAdapter | undefined;
  readonly #adapterScale: number;

  /** @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE where experts or features cannot be spread evenly */
  constructor(
    { name, hiddenSize, specification, initialization, lora }: SublayerOptions<ExpertsSpecification>,
    expertParallel: ExpertParallel | undefined,
  ) {
    const { numExperts, ffnHiddenSize, activation, bias } = specification;
    const here = partOf(placeAmongExperts(expertParallel), { size: numExperts, what: 'experts' });
    const features = partOf(expertParallel?.sharing, { size: ffnHiddenSize, what: 'features of an expert' });
    const parts = isGated(activation) ? [2] : [];
    const upShape = [numExperts, ...parts, ffnHiddenSize];
    const upSlices = [here, ...parts.map(whole), features];
    const upPlacement = { view: 'expert', sharded: { ep: 0, etp: 1 + parts.length } } as const;
    this.#specification = specification;
    this.#up = new Parameter({
      name: `${name}.linear_fc1.weight`,
      globalShape: [...upShape, hiddenSize],
      slices: [...upSlices, whole(hiddenSize)],
      placement: upPlacement,
      matrices: matricesOf([...upShape, hiddenSize]),
      initialization: { kind: 'normal', standardDeviation: initialization.standardDeviation },
    });
    this.#down = new Parameter({
      name: `${name}.linear_fc2.weight`,
      globalShape: [numExperts, hiddenSize, ffnHiddenSize],
      slices: [here, whole(hiddenSize), features],
      placement: { view: 'expert', sharded: { ep: 0, etp: 2 } },
      matrices: matricesOf([numExperts, hiddenSize, ffnHiddenSize]),
      initialization: { kind: 'normal', standardDeviation: initialization.residualStandardDeviation },
    });
    const zeros = { initialization: { kind: 'zeros' }, decays: false } as const;
    this.#upBias = bias
      ? new Parameter({
          ...zeros,
          name: `${name}.linear_fc1.bias`,
          globalShape: upShape,
          slices: upSlices,
          placement: upPlacement,
        })
      : undefined;
    this.#downBias = bias
      ? new Parameter({
          ...zeros,
          name: `${name}.linear_fc2.bias`,
          globalShape: [numExperts, hiddenSize],
          slices: [here, whole(hiddenSize)],
          placement: { view: 'expert', sharded: { ep: 0 } },
        })
      : undefined;
    const [up, down] = [`${name}.linear_fc1`, `${name}.linear_fc2`];
    this.#upAdapter = expertAdapter({ name: up, target: 'expertsFc1', weight: this.#up, lora });
    this.#downAdapter = expertAdapter({ name: down, target: 'expertsFc2', weight: this.#down, lora });
    this.#adapterScale = lora?.scale ?? 0;
    this.adapters = [this.#upAdapter, this.#downAdapter].filter((adapter) => adapter !== undefined);
    const factorsOf = (adapter: BlockAdapter | undefined) => [adapter?.down, adapter?.up];
    const first = [this.#up, this.#upBias, ...factorsOf(this.#upAdapter)];
    const last = [this.#down, ...factorsOf(this.#downAdapter), this.#downBias];
    this.parameters = [...first, ...last].filter((parameter) => parameter !== undefined);
  }

  /** Elements of the matrices of one expert. */
  get weightsOfExpert(): number {
    const { numExperts } = this.#specification;
    const sizeOf = ({ globalShape }: Parameter): number =>
      globalShape.reduce((product, size) => product * size, 1);
    return (sizeOf(this.#up) + sizeOf(this.#down)) / numExperts;
  }

  /** Returns the outputs of the experts, each times the probability of its row: [R, 1, H]. */
  forward(tape: Tape, { rows, probabilities, offsets }: DispatchedTokens): Variable {
    const { kind: activation, clamp, linearOffset } = this.#specification.activation;
    const up = this.#linear(tape, { input: rows, weight: this.#up, adapter: this.#upAdapter, offsets });
    rows.release();
    const activated = expertActivation(tape, {
      input: up,
      bias: this.#upBias,
      probabilities,
      offsets,
      activation,
      clamp,
      linearOffset,
    });
    up.release();
    const last = { weight: this.#down, adapter: this.#downAdapter, offsets };
    const output = this.#linear(tape, { input: activated, ...last });
    activated.release();
    if (this.#downBias === undefined) return output;
    return groupedBias(tape, { input: output, bias: this.#downBias, probabilities, offsets });
  }

  #linear(
    tape: Tape,
    { adapter, ...options }: GroupedLinearOptions & { readonly adapter: BlockAdapter | undefined },
  ): Variable {
    if (adapter === undefined) return groupedLinear(tape, options);
    return adaptedGroupedLinear(tape, { ...options, adapter: { ...adapter, scale: this.#adapterScale } });
  }
}

/** Returns the matrix of each expert as a box of the whole tensor. */
const matricesOf = ([numExperts, ...shape]: readonly number[]): readonly (readonly Slice[])[] =>
  Array.from({ length: numExperts! }, (_, expert) => [
    { start: expert, end: expert + 1 },
    ...shape.map(whole),
  ]);

interface ExpertAdapterOptions {
  /** The parameters are called `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  readonly target: 'expertsFc1' | 'expertsFc2';
  /**
   * The weight of the layer: [E, ..., I], of which this process has experts, and of those a slice of the
   * features.
   */
  readonly weight: Parameter;
  readonly lora: LoraSpecification | undefined;
}

/**
 * Returns the adapters of a layer of experts, one for each expert: A [E, r, I] and B [E, ..., r], of which
 * each process has what it has of the weight. Where the features of experts are sharded over etp, so is the
 * factor that they are a dimension of; each process computes a partial sum of the gradient of the other one.
 * Initial values are those of dense layers: A is uniform within 1 / sqrt(I), as in PEFT, and B zero.
 *
 * @returns undefined where the specification does not ask for it
 * @throws ConfigurationError MTL_LORA_TARGETS for adapters with dropout
 */
function expertAdapter({ name, target, weight, lora }: ExpertAdapterOptions): BlockAdapter | undefined {
  if (lora === undefined || !lora.targets.includes(target)) return undefined;
  checkAdapterDropout(lora);
  const { globalShape, slices, placement } = weight;
  const last = globalShape.length - 1;
  const ranks: Slice = { start: 0, end: lora.rank };
  const sharesInputs = placement.sharded.etp === last;
  const placementOf = (shardedOverEtp: number | undefined): Partial<Placement> =>
    shardedOverEtp === undefined
      ? { view: 'expert', sharded: { ep: 0 }, rows: ['etp'] }
      : { view: 'expert', sharded: { ep: 0, etp: shardedOverEtp } };
  const down = new Parameter({
    name: `${name}.lora_a.weight`,
    globalShape: [globalShape[0]!, lora.rank, globalShape[last]!],
    slices: [slices[0]!, ranks, slices[last]!],
    placement: placementOf(sharesInputs ? 2 : undefined),
    initialization: { kind: 'uniform', bound: 1 / Math.sqrt(globalShape[last]!) },
  });
  const up = new Parameter({
    name: `${name}.lora_b.weight`,
    globalShape: [...globalShape.slice(0, -1), lora.rank],
    slices: [...slices.slice(0, -1), ranks],
    placement: placementOf(sharesInputs ? undefined : placement.sharded.etp),
    initialization: { kind: 'zeros' },
  });
  return { target, weight, down, up };
}
