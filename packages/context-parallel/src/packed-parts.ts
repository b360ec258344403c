import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, UsageError } from '@mtl/errors';
import type { PackedSamplesOfBatch, SequencesOfBatch } from '@mtl/layout';
import type { PackedParts, SampleSpan } from './packed-chunks.js';
import { chunksOfRank, computeChunkSize } from './sequence-chunks.js';

/** A document within a sequence: a range of positions. */
export interface Document {
  /** The sequence's number in the micro-batch. */
  readonly sample: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the documents of all sequences. `keyStart` [B, S] contains, for each position, the first position
 * of its document.
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` for a first position that is not the start of its document
 */
export function listDocuments(keyStart: Int32Array, sequenceLength: number): readonly Document[] {
  const documents: Document[] = [];
  for (let index = 0; index < keyStart.length; ) {
    const sample = Math.floor(index / sequenceLength);
    const [first, limit] = [sample * sequenceLength, (sample + 1) * sequenceLength];
    const start = index - first;
    if (keyStart[index] !== start) {
      const what = `the first key of position ${start} of sample ${sample} is ${keyStart[index]}`;
      throw new UsageError('MTL_CONTEXT_PARALLEL', what, {
        expected: 'the position itself, where a document begins, or the start at the position before it',
      });
    }
    while (index < limit && keyStart[index] === start) index++;
    documents.push({ sample, start, end: index - first });
  }
  return documents;
}

/**
 * Returns the borders of the `2 * n` chunks of every document, where n = `size`, as positions [documents][2 *
 * n + 1]: the start of each chunk and the end of the last chunk. If the length of a document is not a
 * multiple of `2 * n`, some chunks get one more position. The additional positions go to all chunks in turn,
 * so that all chunks have the same total number of positions of each sequence. No document is padded, so the
 * tokens of a step do not depend on the number of processes.
 *
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that cannot be divided into `2 * n`
 *   equal chunks
 */
export function bordersOfDocuments(
  documents: readonly Document[],
  { sequenceLength, size }: { readonly sequenceLength: number; readonly size: number },
): ReadonlyArray<readonly number[]> {
  computeChunkSize(sequenceLength, size);
  const numChunks = 2 * size;
  // the chunk that gets the next additional position; it is 0 again at the end of every sequence, because the
  // sequence length is a multiple of `2 * n`
  let next = 0;
  return documents.map(({ start, end }) => {
    const length = end - start;
    const [least, rest] = [Math.floor(length / numChunks), length % numChunks];
    const borders = [start];
    for (let chunk = 0; chunk < numChunks; chunk++) {
      const isLonger = (chunk - next + numChunks) % numChunks < rest;
      borders.push(borders[chunk]! + least + (isLonger ? 1 : 0));
    }
    next = (next + rest) % numChunks;
    return borders;
  });
}

/** Adds empty documents up to a power of two, so that only a few different document counts occur. */
function filledUp(documents: readonly Document[]): readonly Document[] {
  const count = 2 ** Math.ceil(Math.log2(documents.length));
  const empty = { sample: 0, start: 0, end: 0 };
  return [...documents, ...Array.from({ length: count - documents.length }, () => empty)];
}

/**
 * Divides each document separately: a process has two chunks of each document, one from each end. All
 * processes thus do the same amount of causal attention, whatever the documents are.
 */
export function documentChunks(
  {
    batchSize,
    sequenceLength,
    sampleNumbers,
    keyStart,
  }: SequencesOfBatch & { readonly keyStart: Int32Array },
  { group, isLaunchedAgain }: { readonly group: ProcessGroup; readonly isLaunchedAgain: boolean },
): PackedParts & { readonly indices: Int32Array } {
  const { size } = group;
  const own = listDocuments(keyStart, sequenceLength);
  const documents = isLaunchedAgain ? filledUp(own) : own;
  const borders = bordersOfDocuments(documents, { sequenceLength, size });
  const parts = Array.from({ length: 2 * size }, (_, chunk) =>
    borders.map((of): SampleSpan => [of[chunk]!, of[chunk + 1]!]),
  );
  const perSample = computeChunkSize(sequenceLength, size);
  const chunkSize = perSample * batchSize;
  const places = new Int32Array(batchSize * sequenceLength);
  const indices = new Int32Array(2 * chunkSize);
  Array.from({ length: size }, (_, rank) => chunksOfRank(rank, size)).forEach((ofRank, rank) => {
    ofRank.forEach((chunk, half) => {
      const filled = new Int32Array(batchSize);
      parts[chunk]!.forEach(([start, end], document) => {
        const { sample } = documents[document]!;
        for (let position = start; position < end; position++) {
          const row = filled[sample]!++;
          places[sample * sequenceLength + position] =
            (2 * rank + half) * chunkSize + sample * perSample + row;
          if (rank !== group.rank) continue;
          indices[half * chunkSize + row * batchSize + sample] = position * batchSize + sample;
        }
      });
    });
  });
  return {
    group,
    chunkSize,
    parts,
    ofRank: (rank) => chunksOfRank(rank, size),
    sampleNumbers: documents.map(({ sample }) => BigInt(sampleNumbers[sample]!)),
    columns: batchSize,
    places,
    indices,
  };
}

/**
 * Divides the rows of samples whose attention is not causal into one slice per process, because every row of
 * a sample is then the same amount of work.
 *
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for rows that cannot be divided into `group.size`
 *   equal slices
 */
export function rowChunks(
  { numRows, starts, sampleNumbers }: Pick<PackedSamplesOfBatch, 'numRows' | 'starts' | 'sampleNumbers'>,
  group: ProcessGroup,
): PackedParts & { readonly indices: Int32Array } {
  const { rank, size } = group;
  if (numRows % size !== 0) {
    throw new ConfigurationError(
      'MTL_CONTEXT_PARALLEL_SIZE',
      `${numRows} rows of packed samples cannot be divided over ${size} processes`,
      { expected: `a multiple of ${size}`, remedy: 'fill the rows up', details: { numRows, size } },
    );
  }
  const chunkSize = numRows / size;
  const within = (row: number, start: number, end: number): number =>
    Math.min(Math.max(row, start), end) - start;
  const parts = Array.from({ length: size }, (_, chunk) =>
    Array.from(sampleNumbers, (_number, sample): SampleSpan => {
      const [start, end] = [starts[sample]!, starts[sample + 1]!];
      return [within(chunk * chunkSize, start, end), within((chunk + 1) * chunkSize, start, end)];
    }),
  );
  return {
    group,
    chunkSize,
    parts,
    ofRank: (of) => [of],
    sampleNumbers: Array.from(sampleNumbers, BigInt),
    indices: Int32Array.from({ length: chunkSize }, (_, row) => rank * chunkSize + row),
  };
}
