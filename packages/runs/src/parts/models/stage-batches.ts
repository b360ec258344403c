import { type BatchLoaderOptions, createBatchLoader, sampleMicroBatches } from '@mtl/data';
import type { NumberedBatch } from '@mtl/layout';

/** A stream of micro-batches that can be closed. */
export interface StageBatches<Batch> extends AsyncIterator<Batch, undefined> {
  close(): Promise<void>;
}

export interface StageBatchesOptions<Batch extends NumberedBatch> extends BatchLoaderOptions<Batch> {
  /** True if this rank has the first or the last stage of the pipeline. */
  readonly needsTokens: boolean;
}

/**
 * Returns the micro-batches of a data-parallel rank in the form that a stage needs. Stages between the first
 * and the last read no data.
 *
 * @param makeOutline returns the outline (a batch without tokens) of the given samples for stages in the
 * middle; undefined if every layer
 *   needs the data
 */
export function stageBatches<Batch extends NumberedBatch>(
  { needsTokens, ...options }: StageBatchesOptions<Batch>,
  makeOutline: ((samples: readonly number[]) => Batch) | undefined,
): StageBatches<Batch> {
  if (needsTokens || makeOutline === undefined) return createBatchLoader(options);
  const { dataset, sampler } = options;
  const micro = sampleMicroBatches({ totalSamples: dataset.length, ...sampler });
  const done = { done: true, value: undefined } as const;
  return {
    next: async () => {
      const next = micro.next();
      return next.done === true ? done : { done: false, value: makeOutline(next.value) };
    },
    return: async () => done,
    close: async () => {},
  };
}
