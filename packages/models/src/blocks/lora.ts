import type { Dropout, LinearAdapter, LinearAdapters, Parameter } from '@mtl/autograd';
import { ConfigurationError } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import type { RowCoordinate } from './row-coordinates.js';

/**
 * A linear layer of a block, or some of its outputs, that may have a low-rank adapter:
 * - `qkv`: the complete projection to queries, keys and values; `query`, `key`, `value`: each alone
 * - `projection`: the output projection of attention
 * - `fc1`: the complete first layer of a feed-forward network; `gate` and `up`: its gates and its values
 * - `fc2`: the second layer of a feed-forward network
 * - `expertsFc1`, `expertsFc2`: the layers of all routed experts; each expert has its own adapter
 * - `sharedFc1`, `sharedGate`, `sharedUp`, `sharedFc2`: the layers of shared experts
 */
export type LoraTarget =
  | ('qkv' | 'query' | 'key' | 'value' | 'projection')
  | FeedForwardTarget
  | ('expertsFc1' | 'expertsFc2')
  | `shared${Capitalize<FeedForwardTarget>}`;

/** A linear layer of a feed-forward network, or some of its outputs. Does not include routed experts. */
type FeedForwardTarget = 'fc1' | 'gate' | 'up' | 'fc2';

/**
 * The low-rank adapters of blocks (LoRA, Hu et al. 2021). If a model has adapters, only the adapters are
 * trained.
 */
export interface LoraSpecification {
  /** r: the rank of every adapter. */
  readonly rank: number;
  /** The factor by which an adapter's output is multiplied: alpha / r, or alpha / sqrt(r). */
  readonly scale: number;
  /**
   * The probability that a feature of an adapter's input is dropped. It must be 0 if routed experts have
   * adapters.
   */
  readonly dropout: number;
  readonly targets: readonly LoraTarget[];
}

/**
 * A low-rank adapter of a linear layer in a block. For routed experts, it has two factors per expert: A [E,
 * r, I] and B [E, ..., r].
 */
export interface BlockAdapter extends LinearAdapter {
  readonly target: LoraTarget;
  /** The weight of the adapted layer. */
  readonly weight: Parameter;
}

/**
 * Rejects dropout in adapters of routed experts, because PEFT does not support it and its files cannot
 * describe it.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function checkAdapterDropout({ dropout, targets }: LoraSpecification): void {
  if (dropout === 0 || !targets.some((target) => target === 'expertsFc1' || target === 'expertsFc2')) return;
  throw new ConfigurationError(
    'MTL_LORA_TARGETS',
    `adapters of experts have no dropout, and ${dropout} is asked for`,
    {
      expected: 'a dropout of 0, or no expert layers',
      remedy: 'leave --lora-dropout out, or name the other layers in --lora-targets',
    },
  );
}

/** Which of a layer's outputs each target adapts: all outputs, or boxes of outputs in global coordinates. */
export type AdapterBoxes = Partial<Readonly<Record<LoraTarget, readonly Slice[] | 'all'>>>;

/** Makes an adapter for a layer, or for a slice of the layer's outputs. */
export type NewAdapter = (options: {
  readonly name: string;
  readonly rank: number;
  readonly outputs?: readonly Slice[] | undefined;
}) => LinearAdapter;

/** The properties of a micro-batch that adapters read (see `MicroBatchContext`). */
interface AdapterCall {
  regionDropout(
    site: { readonly site: string; readonly probability: number },
    firstColumn: number,
  ): Dropout | undefined;
}

interface LayerAdaptersOptions {
  /** The layer's name, for example `decoder.layers.3.mlp.linear_fc1`. */
  readonly name: string;
  /** The layer's weight. */
  readonly weight: Parameter;
  readonly boxes: AdapterBoxes;
  readonly lora: LoraSpecification | undefined;
  readonly newAdapter: NewAdapter;
  /** The global index of the layer's first input column on this process. */
  readonly firstColumn: number;
}

/**
 * The adapters of a linear layer: one for each of the specification's targets that names the layer or some of
 * its outputs.
 */
export class LayerAdapters {
  readonly all: readonly BlockAdapter[];
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly #options: LayerAdaptersOptions;

  constructor(options: LayerAdaptersOptions) {
    const { name, weight, lora, boxes, newAdapter } = options;
    this.#options = options;
    this.all = (lora?.targets ?? []).flatMap((target) => {
      const box = boxes[target];
      if (box === undefined) return [];
      const { rank } = lora!;
      const made =
        box === 'all'
          ? newAdapter({ name, rank })
          : newAdapter({ name: `${name}.${target}`, rank, outputs: box });
      return [{ target, weight, ...made }];
    });
    this.parameters = this.all.flatMap(({ down, up }) => [down, up]);
    const drops = this.all.length > 0 && lora!.dropout > 0;
    this.reads = drops ? ['regionPositions', 'regionSamples'] : [];
  }

  /** Returns the adapters for a call of the layer; undefined if it has none. */
  in(call: AdapterCall): LinearAdapters | undefined {
    const { name, lora, firstColumn } = this.#options;
    if (this.all.length === 0) return undefined;
    const site = { site: `${name}.lora_dropout`, probability: lora!.dropout };
    return {
      adapters: this.all,
      scale: lora!.scale,
      dropout: call.regionDropout(site, firstColumn),
    };
  }
}

const targetOfShared: Readonly<Record<FeedForwardTarget, LoraTarget>> = {
  fc1: 'sharedFc1',
  gate: 'sharedGate',
  up: 'sharedUp',
  fc2: 'sharedFc2',
};

/**
 * Returns the adapter specification for the feed-forward network of shared experts. Targets such as
 * `sharedFc1` become the network's targets, such as `fc1`.
 */
export const loraOfSharedExperts = (lora: LoraSpecification): LoraSpecification => ({
  ...lora,
  targets: (Object.keys(targetOfShared) as FeedForwardTarget[]).filter((target) =>
    lora.targets.includes(targetOfShared[target]),
  ),
});

/**
 * Renames the target of a feed-forward network's adapter, such as `fc1`, to the target of shared experts,
 * such as `sharedFc1`.
 */
export const asSharedAdapter = (adapter: BlockAdapter): BlockAdapter => ({
  ...adapter,
  target: targetOfShared[adapter.target as FeedForwardTarget],
});

/**
 * Freezes all parameters except adapters.
 *
 * `isWhole`: true if `parameters` belong to a complete model. A single pipeline stage may have no adapters,
 * for example a stage of dense layers if only experts have adapters.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS if a complete model has no adapter
 */
export function freezeAllButAdapters(
  parameters: readonly Parameter[],
  { adapters, isWhole }: { readonly adapters: readonly BlockAdapter[]; readonly isWhole: boolean },
): void {
  const trained = new Set(adapters.flatMap(({ down, up }) => [down, up]));
  if (isWhole && trained.size === 0) {
    throw new ConfigurationError('MTL_LORA_TARGETS', 'no layer of the blocks gets an adapter', {
      expected: 'a target of the kinds of attention and feed-forward network that the blocks have',
      remedy: 'choose other targets: without any target nothing would be trained',
    });
  }
  for (const parameter of parameters) if (!trained.has(parameter)) parameter.freeze();
}
