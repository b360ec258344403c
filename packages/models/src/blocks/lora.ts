import type { LinearAdapter, LinearAdapters, Parameter } from '@mtl/autograd';
import { ConfigurationError } from '@mtl/errors';
import type { Slice } from '@mtl/layout';
import { columnParallelAdapter, rowParallelAdapter, type TensorParallel } from '@mtl/tensor-parallel';
import type { MicroBatchContext } from './micro-batch-context.js';
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
export type FeedForwardTarget = 'fc1' | 'gate' | 'up' | 'fc2';

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

interface LoraAdaptersOptions {
  /** The name of the layer: `decoder.layers.3.mlp.linear_fc1`. */
  readonly name: string;
  /** The layer's weight. */
  readonly weight: Parameter;
  readonly lora: LoraSpecification | undefined;
  /** The dimension of the weight that is sharded. */
  readonly parallel: 'column' | 'row';
  /** The parts that may have an adapter: the whole layer, or boxes of its outputs in global coordinates. */
  readonly boxes: Partial<Readonly<Record<LoraTarget, readonly Slice[] | 'all'>>>;
  readonly tensorParallel: TensorParallel | undefined;
}

/** The adapters of a linear layer, as many as the specification asks for. */
export class LoraAdapters {
  readonly all: readonly BlockAdapter[];
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly #options: LoraAdaptersOptions;

  constructor(options: LoraAdaptersOptions) {
    const { name, weight, lora, parallel, boxes, tensorParallel } = options;
    this.#options = options;
    const adapterOf = (target: LoraTarget, box: readonly Slice[] | 'all'): LinearAdapter => {
      const common = { weight, rank: lora!.rank, tensorParallel };
      if (parallel === 'row') return rowParallelAdapter({ ...common, name });
      if (box === 'all') return columnParallelAdapter({ ...common, name });
      return columnParallelAdapter({ ...common, name: `${name}.${target}`, outputs: box });
    };
    this.all = (lora?.targets ?? []).flatMap((target) => {
      const box = boxes[target];
      return box === undefined ? [] : [{ target, weight, ...adapterOf(target, box) }];
    });
    this.parameters = this.all.flatMap(({ down, up }) => [down, up]);
    const drops = this.all.length > 0 && lora!.dropout > 0;
    this.reads = drops ? ['regionPositions', 'regionSamples'] : [];
  }

  /** Returns the adapters that the layer computes with in a call; undefined without adapters. */
  in(context: Pick<MicroBatchContext, 'regionDropout'>): LinearAdapters | undefined {
    const { name, weight, lora, parallel } = this.#options;
    if (this.all.length === 0) return undefined;
    const site = { site: `${name}.lora_dropout`, probability: lora!.dropout };
    const firstColumn = parallel === 'row' ? weight.slices[1]!.start : 0;
    return {
      adapters: this.all,
      scale: lora!.scale,
      dropout: context.regionDropout(site, firstColumn),
    };
  }
}
