import type { Dropout, LinearAdapter, LinearAdapters, Parameter } from '@mtl/autograd';
import { ConfigurationError } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import type { RowCoordinate } from './row-coordinates.js';

/**
 * A linear layer of a block that may have a low-rank adapter, or a part of its outputs: `qkv` is the whole
 * projection to queries, keys and values, `fc1` all of the first layer of a feed-forward network, with gates
 * and values where it is gated. `expertsFc1` and `expertsFc2` are the layers of all routed experts, each of
 * which has an adapter of its own, `sharedFc1` to `sharedFc2` those of shared experts.
 */
export type LoraTarget =
  | ('qkv' | 'query' | 'key' | 'value' | 'projection')
  | FeedForwardTarget
  | ('expertsFc1' | 'expertsFc2')
  | `shared${Capitalize<FeedForwardTarget>}`;

/** A linear layer of a feed-forward network that every token uses, or a part of its outputs. */
type FeedForwardTarget = 'fc1' | 'gate' | 'up' | 'fc2';

/**
 * The low-rank adapters of blocks (LoRA, Hu et al. 2021). Where there are any, they alone are trained.
 */
export interface LoraSpecification {
  /** r */
  readonly rank: number;
  /** The factor of what adapters add: alpha / r, or alpha / sqrt(r). */
  readonly scale: number;
  /**
   * Probability with which a feature of an adapter's input is dropped; 0 where routed experts have adapters.
   */
  readonly dropout: number;
  readonly targets: readonly LoraTarget[];
}

/**
 * A low-rank adapter of a linear layer of a block. That of routed experts has factors for each of them: A
 * [E, r, I], B [E, ..., r].
 */
export interface BlockAdapter extends LinearAdapter {
  readonly target: LoraTarget;
  /** The weight of the layer. */
  readonly weight: Parameter;
}

/**
 * Refuses dropout of adapters of routed experts: PEFT has none, whose files could not say it.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function checkAdapterDropout({ dropout, targets }: LoraSpecification): void {
  if (dropout === 0 || !targets.some((target) => target === 'expertsFc1' || target === 'expertsFc2')) return;
  throw new ConfigurationError(
    'MTL_LORA_TARGETS',
    `adapters of experts have no dropout, and ${dropout} is asked for`,
    {
      expected: 'a dropout of 0, or layers other than those of experts',
      remedy: 'leave --lora-dropout out, or name the other layers in --lora-targets',
    },
  );
}

/**
 * The parts of a layer that may have an adapter: the whole layer, or boxes of its outputs in global
 * coordinates.
 */
export type AdapterBoxes = Partial<Readonly<Record<LoraTarget, readonly Slice[] | 'all'>>>;

/** Makes the adapter of a box of a layer, or of the whole layer. */
export type NewAdapter = (options: {
  readonly name: string;
  readonly rank: number;
  readonly outputs?: readonly Slice[] | undefined;
}) => LinearAdapter;

/** The values that adapters read of a micro-batch (`MicroBatchContext`). */
interface AdapterCall {
  regionDropout(
    site: { readonly site: string; readonly probability: number },
    firstColumn: number,
  ): Dropout | undefined;
}

interface LayerAdaptersOptions {
  /** The name of the layer: `decoder.layers.3.mlp.linear_fc1`. */
  readonly name: string;
  /** The layer's weight. */
  readonly weight: Parameter;
  readonly boxes: AdapterBoxes;
  readonly lora: LoraSpecification | undefined;
  readonly newAdapter: NewAdapter;
  /** The first column of the layer's input that this process has. */
  readonly firstColumn: number;
}

/** The adapters of a linear layer, as many as the specification asks for. */
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

  /** Returns the adapters that the layer computes with in a call; undefined without adapters. */
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

/** Returns the adapters of shared experts as those of a feed-forward network. */
export const loraOfSharedExperts = (lora: LoraSpecification): LoraSpecification => ({
  ...lora,
  targets: (Object.keys(targetOfShared) as FeedForwardTarget[]).filter((target) =>
    lora.targets.includes(targetOfShared[target]),
  ),
});

/** Returns an adapter of a feed-forward network as one of shared experts. */
export const asSharedAdapter = (adapter: BlockAdapter): BlockAdapter => ({
  ...adapter,
  target: targetOfShared[adapter.target as FeedForwardTarget],
});

/**
 * Freezes all parameters but those of adapters.
 *
 * `isWhole`: whether these are the parameters of a whole model; a stage of a pipeline may have no adapter,
 * such as one of dense layers where experts are adapted
 *
 * @throws ConfigurationError MTL_LORA_TARGETS when a whole model has no adapter
 */
export function freezeAllButAdapters(
  parameters: readonly Parameter[],
  { adapters, isWhole }: { readonly adapters: readonly BlockAdapter[]; readonly isWhole: boolean },
): void {
  const trained = new Set(adapters.flatMap(({ down, up }) => [down, up]));
  if (isWhole && trained.size === 0) {
    throw new ConfigurationError('MTL_LORA_TARGETS', 'no layer of the blocks gets an adapter', {
      expected: 'a target of the kinds of attention and feed-forward network that the blocks have',
      remedy: 'choose other targets: with none of them nothing would be trained',
    });
  }
  for (const parameter of parameters) if (!trained.has(parameter)) parameter.freeze();
}
