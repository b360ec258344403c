import { createBatchLoader, type TaskDataset, type TaskTokenBatch } from '@mtl/data';

// S sequence, R rows of a micro-batch.

export interface TaskBatchesOptions {
  readonly dataset: TaskDataset;
  readonly seed: number;
  readonly consumedSamples: number;
  readonly globalBatchSize: number;
  readonly microBatchSize: number;
  readonly dataParallelRank: number;
  readonly dataParallelSize: number;
  /** What sequence lengths must be a multiple of (sequence parallelism). */
  readonly sequenceMultiple: number;
}

/** A stream of micro-batches that can be closed. */
export interface TaskBatches extends AsyncIterator<TaskTokenBatch, undefined> {
  close(): Promise<void>;
}

// few lengths, so that kernels prepared for a shape are used again
const lengthStep = 16;

/**
 * This data-parallel rank's micro-batches, epoch after epoch, each in another order. Samples are numbered by their place in
 * the training, so that dropout does not repeat itself every epoch.
 */
export function taskBatches(options: TaskBatchesOptions): TaskBatches {
  const { dataset, globalBatchSize, sequenceMultiple, ...sampler } = options;
  const { microBatchSize, dataParallelRank, dataParallelSize } = sampler;
  const loader = createBatchLoader<TaskTokenBatch>({
    dataset,
    sampler: { kind: 'cyclic', ...sampler, epochMultiple: globalBatchSize },
  });
  let first = sampler.consumedSamples + dataParallelRank * microBatchSize;
  return {
    next: async () => {
      const next = await loader.next();
      if (next.done === true) return next;
      const sampleNumbers = Float64Array.from({ length: microBatchSize }, (_, row) => first + row);
      first += microBatchSize * dataParallelSize;
      const value = withoutPadding({ ...next.value, sampleNumbers }, { multiple: sequenceMultiple });
      return { done: false, value };
    },
    return: () => loader.return!(),
    close: () => loader.close(),
  };
}

/** A micro-batch cut to its longest row, or a little more: tokens lie sequence first, so nothing is copied. */
export function withoutPadding(
  batch: TaskTokenBatch,
  { multiple }: { readonly multiple: number },
): TaskTokenBatch {
  const step = lengthStep * multiple;
  const longest = batch.lengths.reduce((most, length) => Math.max(most, length), 0);
  const sequenceLength = Math.min(batch.sequenceLength, Math.ceil(longest / step) * step);
  const size = sequenceLength * batch.lengths.length;
  return {
    ...batch,
    sequenceLength,
    tokens: batch.tokens.subarray(0, size),
    tokenTypes: batch.tokenTypes.subarray(0, size),
  };
}
