import { type LinearAdapter, Parameter } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import { replicatedParameter } from './replicated-parameter.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelAdapterOptions {
  /** The parameters are called `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  /** That of `columnParallelParameters`. */
  readonly weight: Parameter;
  /**
   * A box of its outputs, in global coordinates: a slice of every dimension but the last, and of the one that
   * is sharded all. Default: all outputs.
   */
  readonly outputs?: readonly Slice[] | undefined;
  /** r */
  readonly rank: number;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * An adapter of a `columnParallelLinear`: A [r, I], which all ranks have, and B [...outputs, r], of which
 * each has the rows that it has of the weight. Each rank computes the gradient of A from its outputs, a
 * partial sum. Initially A is uniform within 1 / sqrt(I), as in PEFT
 * (Kaiming's with a = sqrt(5)), and B zero, so that the adapter adds nothing.
 */
export function columnParallelAdapter(options: ColumnParallelAdapterOptions): LinearAdapter {
  const { name, weight, rank, tensorParallel } = options;
  const dims = weight.globalShape.slice(0, -1);
  const inputs = weight.globalShape.at(-1)!;
  const box = options.outputs ?? dims.map((size) => ({ start: 0, end: size }));
  // of the box, what this rank holds of the weight
  const own = box.map(({ start, end }, dim) => {
    const held = weight.slices[dim]!;
    return { start: Math.max(start, held.start), end: Math.min(end, held.end) };
  });
  const within = (slice: Slice, { start }: Slice): Slice => ({
    start: slice.start - start,
    end: slice.end - start,
  });
  return {
    down: replicatedParameter({
      name: `${name}.lora_a.weight`,
      globalShape: [rank, inputs],
      initialization: { kind: 'uniform', bound: 1 / Math.sqrt(inputs) },
      insideRegions: true,
      tensorParallel,
    }),
    up: new Parameter({
      name: `${name}.lora_b.weight`,
      globalShape: [...box.map(({ start, end }) => end - start), rank],
      slices: [...own.map((slice, dim) => within(slice, box[dim]!)), { start: 0, end: rank }],
      placement: { sharded: weight.placement.sharded },
      initialization: { kind: 'zeros' },
    }),
    outputs: options.outputs && own.map((slice, dim) => within(slice, weight.slices[dim]!)),
  };
}
