import { type LinearAdapter, Parameter } from '@mtl/autograd';
import { replicatedParameter } from './replicated-parameter.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface RowParallelAdapterOptions {
  /** The parameters are called `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  /** That of `rowParallelParameters`. */
  readonly weight: Parameter;
  /** r */
  readonly rank: number;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * An adapter of a `rowParallelLinear`: A [r, I], of which each rank has the columns that it has of the
 * weight, and B [O, r], which all have. The sum over ranks that leaves the region contains what the adapter
 * adds; each rank computes the gradient of B from its inputs, a partial sum. Initial values: as
 * `columnParallelAdapter`.
 */
export function rowParallelAdapter(options: RowParallelAdapterOptions): LinearAdapter {
  const { name, weight, rank, tensorParallel } = options;
  const [outputs, inputs] = weight.globalShape as [number, number];
  return {
    down: new Parameter({
      name: `${name}.lora_a.weight`,
      globalShape: [rank, inputs],
      slices: [{ start: 0, end: rank }, weight.slices[1]!],
      placement: { sharded: { tp: 1 } },
      initialization: { kind: 'uniform', bound: 1 / Math.sqrt(inputs) },
    }),
    up: replicatedParameter({
      name: `${name}.lora_b.weight`,
      globalShape: [outputs, rank],
      initialization: { kind: 'zeros' },
      insideRegions: true,
      tensorParallel,
    }),
  };
}
