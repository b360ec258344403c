import { createBatchLoader } from '@mtl/data';
import type { TaskDataset, TaskTokenBatch } from '@mtl/data/tasks';

// S sequence, R rows of a micro-batch.

export interface TaskBatchesOptions {
  readonly dataset: TaskDataset;
  readonly seed: number;
  readonly consumedSamples: number;
  readonly globalBatchSize: number;
  readonly microBatchSize: number;
  readonly dataParallelRank: number;
  readonly dataParallelSize: number;
  /** Whether micro-batches end with their longest row (`withoutPadding`). */
  readonly isCut: boolean;
}

/** A stream of micro-batches that can be closed. */
export interface TaskBatches extends AsyncIterator<TaskTokenBatch, undefined> {
  close(): Promise<void>;
}

/**
 * This data-parallel rank's micro-batches, epoch after epoch, each in another order. Samples are numbered by
 * their place in the training run, so that dropout does not repeat itself every epoch.
 */
export function taskBatches(options: TaskBatchesOptions): TaskBatches {
  const { dataset, globalBatchSize, isCut, ...sampler } = options;
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
      const value = { ...next.value, sampleNumbers };
      return { done: false, value: isCut ? withoutPadding(value) : value };
    },
    return: () => loader.return!(),
    close: () => loader.close(),
  };
}

/**
 * A micro-batch cut to its longest row, so that a head with a logit for every token computes none for padding
 * (layers never do). Tokens lie sequence first: nothing is copied.
 */
export function withoutPadding(batch: TaskTokenBatch): TaskTokenBatch {
  const sequenceLength = batch.lengths.reduce((most, length) => Math.max(most, length), 0);
  const size = sequenceLength * batch.lengths.length;
  return {
    ...batch,
    sequenceLength,
    tokens: batch.tokens.subarray(0, size),
    tokenTypes: batch.tokenTypes.subarray(0, size),
  };
}
