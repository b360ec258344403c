import { Parameter, type Placement } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import type { BlockAdapter } from '../blocks/block-adapter.js';
import type { LoraSpecification } from '../blocks/lora-specification.js';
import { checkAdapterDropout } from './check-adapter-dropout.js';

export interface ExpertAdapterOptions {
  /** The parameters are called `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  readonly target: 'expertsFc1' | 'expertsFc2';
  /**
   * That of the layer: [E, ..., I], of which this process has experts, and of those a slice of the features.
   */
  readonly weight: Parameter;
  readonly lora: LoraSpecification | undefined;
}

/**
 * The adapters of a layer of experts, one for each expert: A [E, r, I] and B [E, ..., r], of which each
 * process has what it has of the weight. Where the features of experts are sharded over etp, so is the factor
 * that they are a dimension of; each process computes a partial sum of the gradient of the other one. Initial
 * values are those of dense layers: A is uniform within 1 / sqrt(I), as in PEFT, and B zero.
 *
 * @returns undefined where the specification does not ask for it
 * @throws ConfigurationError MTL_LORA_TARGETS for adapters with dropout
 */
export function expertAdapter({
  name,
  target,
  weight,
  lora,
}: ExpertAdapterOptions): BlockAdapter | undefined {
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
