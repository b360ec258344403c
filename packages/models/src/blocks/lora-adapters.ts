import type { LinearAdapter, LinearAdapters, Parameter } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import { columnParallelAdapter, rowParallelAdapter, type TensorParallel } from '@mtl/tensor-parallel';
import type { BlockAdapter } from './block-adapter.js';
import type { LoraSpecification, LoraTarget } from './lora-specification.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';

export interface LoraAdaptersOptions {
  /** Of the layer: `decoder.layers.3.mlp.linear_fc1`. */
  readonly name: string;
  /** The layer's weight. */
  readonly weight: Parameter;
  readonly lora: LoraSpecification | undefined;
  /** Which dimension of the weight is sharded. */
  readonly parallel: 'column' | 'row';
  /** What may have an adapter: the whole layer, or boxes of its outputs in global coordinates. */
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

  /** What the layer computes with in a call; undefined without adapters. */
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
