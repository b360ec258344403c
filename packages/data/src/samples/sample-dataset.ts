import type { NumberedBatch, TokenBatch } from '@mtl/layout';

/** Plain data from which any thread can open a dataset. */
export interface SampleDatasetDescription {
  /** The kind of the dataset, such as `gpt`. */
  readonly kind: string;
}

/** The documents that a sample was read from. */
export interface SampleDocuments {
  /** The source in which documents are numbered: the prefix of an indexed dataset, or another name. */
  readonly source: string;
  /** The numbers of the documents in the source, from 0. */
  readonly documents: readonly number[];
}

/** A dataset of samples with equal sequence lengths. */
export interface SampleDataset<Batch extends NumberedBatch = TokenBatch> {
  /** Number of samples. */
  readonly length: number;
  readonly sequenceLength: number;
  /**
   * A description from which a worker thread can open the same dataset. Its arrays are shared, not copied.
   */
  readonly description: SampleDatasetDescription;
  /** Returns an empty batch of `batchSize` rows, to be filled and finished. */
  createBatch(batchSize: number): Batch;
  /**
   * Writes sample `sample` into row `row` of `batch`. Rows must be written in ascending order, and each
   * exactly once.
   */
  fillRow(options: { readonly sample: number; readonly batch: Batch; readonly row: number }): void;
  /** Returns the final form of a batch after all its rows are filled. */
  finishBatch(batch: Batch): Batch;
  /** Returns a sample as a batch. */
  sample(sample: number): Batch;
  /**
   * Returns the number of tokens in a sample before its padding, without reading the tokens. Undefined if the
   * dataset cannot know this number, or if its batches have no `lengths`.
   */
  readonly measureLength?: ((sample: number) => number) | undefined;
  /** Returns the documents from which a sample was read. Absent for datasets without document numbers. */
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

/** Reads samples into a new batch, in the given order. */
export function assembleBatch<Batch extends NumberedBatch>(
  dataset: SampleDataset<Batch>,
  samples: readonly number[],
): Batch {
  // Each batch has new arrays, because a caller may still use an older batch.
  const batch = dataset.createBatch(samples.length);
  for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
  return dataset.finishBatch(batch);
}

/**
 * Returns the documents of samples, grouped by source. Sources are in the order of their first sample. Each
 * document occurs once, in ascending order.
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
