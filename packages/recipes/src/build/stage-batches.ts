import {
  type BatchLoaderOptions,
  createBatchLoader,
  type NumberedBatch,
  type SampleDataset,
  sampleMicroBatches,
} from '@mtl/data';
import type { BatchOutline, StageBatch } from '@mtl/models';

/** A stream of micro-batches that can be closed. */
export interface StageBatches<Batch = StageBatch> extends AsyncIterator<Batch, undefined> {
  close(): Promise<void>;
}

export interface StageBatchesOptions<Batch extends NumberedBatch> extends BatchLoaderOptions<Batch> {
  /** Whether the first or the last stage of the pipeline is here. */
  readonly needsTokens: boolean;
}

/**
 * The micro-batches of a data-parallel rank as a stage needs them: stages between the first and the last read no data but
 * where attention stops at documents, which every layer must know.
 */
export function stageBatches({ needsTokens, ...options }: StageBatchesOptions<StageBatch>): StageBatches {
  const { dataset, sampler } = options;
  const stopsAtDocuments = dataset.createBatch(1).keyStart !== undefined;
  if (needsTokens || stopsAtDocuments) return createBatchLoader(options);
  const outlines = batchOutlines(dataset, sampler);
  return {
    next: async () => outlines.next() as IteratorResult<StageBatch, undefined>,
    return: async () => ({ done: true, value: undefined }),
    close: async () => {},
  };
}

function* batchOutlines(
  dataset: SampleDataset<StageBatch>,
  sampler: BatchLoaderOptions<StageBatch>['sampler'],
): Generator<BatchOutline, undefined, undefined> {
  const { length, sequenceLength } = dataset;
  for (const samples of sampleMicroBatches({ totalSamples: length, ...sampler })) {
    yield {
      ...{ batchSize: samples.length, sequenceLength },
      sampleNumbers: Float64Array.from(samples),
      keyStart: undefined,
    };
  }
}
