import type { NumberedBatch, TokenBatch } from '@mtl/layout';

/** Plain data from which a dataset is opened, which worker threads can receive. */
export interface SampleDatasetDescription {
  /** The class of the dataset, such as `gpt`. */
  readonly kind: string;
}

/** The documents that a sample was read from. */
export interface SampleDocuments {
  /** The source of the documents' numbers: the prefix of an indexed dataset, or another name. */
  readonly source: string;
  /** Numbers of the documents in the source, from 0. */
  readonly documents: readonly number[];
}

/** A dataset from which samples of one sequence length can be drawn. */
export interface SampleDataset<Batch extends NumberedBatch = TokenBatch> {
  /** Number of samples. */
  readonly length: number;
  readonly sequenceLength: number;
  /** Lets a worker thread open the same dataset; its arrays are shared, not copied. */
  readonly description: SampleDatasetDescription;
  /** Returns an empty batch of `batchSize` rows, to be filled and finished. */
  createBatch(batchSize: number): Batch;
  /**
   * Writes sample number `sample` into row `row` of `batch`; each row must be written once, in ascending
   * order.
   */
  fillRow(options: { readonly sample: number; readonly batch: Batch; readonly row: number }): void;
  /** Returns the final form of a batch whose rows are all filled. */
  finishBatch(batch: Batch): Batch;
  /** Returns one sample as a batch. */
  sample(sample: number): Batch;
  /**
   * Returns the tokens of a sample before its padding, from the index alone if possible, for callers that do
   * not need the tokens. Only datasets whose batches have `lengths` have this function.
   */
  readonly measureLength?: ((sample: number) => number) | undefined;
  /** Returns the documents that a sample was read from. Absent for datasets that do not know them. */
  listDocuments?(sample: number): SampleDocuments;
  /** Closes the files. */
  close(): void;
  [Symbol.dispose](): void;
}

/** Returns an empty batch of these shapes. */
export function createTokenBatch(options: {
  batchSize: number;
  sequenceLength: number;
  withKeyStart: boolean;
}): TokenBatch {
  const { batchSize, sequenceLength, withKeyStart } = options;
  const elements = batchSize * sequenceLength;
  return {
    batchSize,
    sequenceLength,
    tokens: new Int32Array(elements),
    labels: new Int32Array(elements),
    lossMask: new Float32Array(elements),
    positionIds: new Int32Array(elements),
    keyStart: withKeyStart ? new Int32Array(elements) : undefined,
    sampleNumbers: new Float64Array(batchSize),
  };
}

/** Reads samples into a new batch, in the order given. */
export function assembleBatch<Batch extends NumberedBatch>(
  dataset: SampleDataset<Batch>,
  samples: readonly number[],
): Batch {
  // New arrays each time: a caller that holds an older batch must not see it change.
  const batch = dataset.createBatch(samples.length);
  for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
  return dataset.finishBatch(batch);
}

/**
 * Returns the documents that samples were read from, grouped by source, with sources in the order of their
 * first sample; each document occurs once, in ascending order.
 */
export function documentsOfSamples<Batch extends NumberedBatch>(
  dataset: Pick<SampleDataset<Batch>, 'listDocuments'>,
  samples: Iterable<number>,
): readonly SampleDocuments[] {
  const bySource = new Map<string, Set<number>>();
  for (const sample of samples) {
    const found = dataset.listDocuments?.(sample);
    if (found === undefined) continue;
    const known = bySource.get(found.source) ?? new Set();
    for (const document of found.documents) known.add(document);
    bySource.set(found.source, known);
  }
  return [...bySource].map(([source, documents]) => ({
    source,
    documents: [...documents].sort((a, b) => a - b),
  }));
}
