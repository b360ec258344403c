import type { MemoryShape } from './memory-shape.js';

/** A change of a training that takes less memory. */
export interface MemorySaving {
  readonly flags: string;
  /** What it makes of the shape; `predictMemory` of the two says how much it saves. */
  readonly shape: Partial<MemoryShape>;
}

/** Single changes of a training in so many processes that save memory, the cheapest in time first. */
export function memorySavings(shape: MemoryShape, numProcesses: number): readonly MemorySaving[] {
  const { tensorParallelSize: t, recomputation, optimizerShards, microBatchSize } = shape;
  const modelParallelSize = t * (shape.pipeline?.schedule.actions.length ?? 1);
  const dataParallelSize = numProcesses / modelParallelSize;
  return [
    ...(optimizerShards === 1 && dataParallelSize > 1
      ? [{ flags: '--use-distributed-optimizer', shape: { optimizerShards: dataParallelSize } }]
      : []),
    ...(shape.cudaGraphs ? [{ flags: 'no --cuda-graphs', shape: { cudaGraphs: false } }] : []),
    ...(t > 1 && !shape.sequenceParallel
      ? [{ flags: '--sequence-parallel', shape: { sequenceParallel: true } }]
      : []),
    ...(microBatchSize > 1 ? [{ flags: '--micro-batch-size 1', shape: { microBatchSize: 1 } }] : []),
    ...(recomputation.granularity === 'full'
      ? []
      : [
          {
            flags: '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1',
            shape: { recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 } as const },
          },
        ]),
    ...(shape.bytesPerElement === 4 ? [{ flags: '--bf16', shape: { bytesPerElement: 2 as const } }] : []),
    ...[2, 4, 8]
      .filter(
        (size) => size > t && shape.numAttentionHeads % size === 0 && (dataParallelSize * t) % size === 0,
      )
      .map((size) => ({
        flags: `--tensor-model-parallel-size ${size}`,
        shape: {
          tensorParallelSize: size,
          optimizerShards: optimizerShards > 1 ? (dataParallelSize * t) / size : 1,
        },
      })),
  ];
}
