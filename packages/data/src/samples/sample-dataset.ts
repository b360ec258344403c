import type { NumberedBatch, TokenBatch } from '@mtl/layout';

/** Plain data from which any thread can open a dataset. */
export interface SampleDatasetDescription {
  /** The kind of the dataset, such as `gpt`. */
  readonly kind: string;
}

/** The documents from which a sample was read. */
export interface SampleDocuments {
  /** The dataset that contains the documents: the prefix of an indexed dataset, or a descriptive name. */
  readonly source: string;
  /** The indices of the documents in the source, from 0. */
  readonly documents: readonly number[];
}

/** A dataset of samples that all have the same sequence length. */
export interface SampleDataset<Batch extends NumberedBatch = TokenBatch> {
  /** Number of samples. */
  readonly length: number;
  readonly sequenceLength: number;
  /**
   * A description from which a worker thread can open the same dataset. Its arrays are shared, not copied.
   */
  readonly description: SampleDatasetDescription;
  /** Returns an empty batch of `batchSize` rows. The caller fills all rows and then calls `finishBatch`. */
  createBatch(batchSize: number): Batch;
  /**
   * Writes sample `sample` into row `row` of `batch`. The caller must write every row exactly once, in
   * ascending order.
   */
  fillRow(options: { readonly sample: number; readonly batch: Batch; readonly row: number }): void;
  /** Returns a batch's final form. All rows must have been filled. */
  finishBatch(batch: Batch): Batch;
  /** Returns a sample as a batch. */
  sample(sample: number): Batch;
  /**
   * Returns a sample's token count without padding, and without reading the tokens. Undefined if the dataset
   * cannot know the count in advance, or if its batches have no `lengths`.
   */
  readonly measureLength?: ((sample: number) => number) | undefined;
  /**
   * Returns the documents from which a sample was read. Absent for datasets whose documents have no indices.
   */
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

/** Reads the given samples into a new batch, in the given order. */
export function assembleBatch<Batch extends NumberedBatch>(
  dataset: SampleDataset<Batch>,
  samples: readonly number[],
): Batch {
  // Each batch has new arrays, because the caller may still use an earlier batch.
  const batch = dataset.createBatch(samples.length);
  for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
  return dataset.finishBatch(batch);
}

/**
 * Returns the documents from which the given samples were read, grouped by source. Sources are in the order
 * of their first sample. Each document occurs once, in ascending order.
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
