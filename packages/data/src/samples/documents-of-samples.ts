import type { NumberedBatch, SampleDataset, SampleDocuments } from './sample-dataset.js';

/**
 * The documents that samples were read from, by source in the order of their first sample; each once,
 * ascending.
 */
export function documentsOfSamples<Batch extends NumberedBatch>(
  dataset: Pick<SampleDataset<Batch>, 'documentsOf'>,
  samples: Iterable<number>,
): readonly SampleDocuments[] {
  const bySource = new Map<string, Set<number>>();
  for (const sample of samples) {
    const found = dataset.documentsOf?.(sample);
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
