import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import { type Chunks, chunkOptions } from './chunks.js';

/**
 * Returns the indices of the two chunks of a sequence that a process owns. If a sequence is sharded over n
 * processes, it has `2 * n` equal chunks, and each process owns one chunk from each end, so that causal
 * attention is the same amount of work for all processes (zigzag).
 */
export const chunksOfRank = (rank: number, size: number): readonly [number, number] => [
  rank,
  2 * size - 1 - rank,
];

/** Returns the positions of a chunk. */
const chunkSlice = (chunk: number, chunkSize: number): Slice => ({
  start: chunk * chunkSize,
  end: (chunk + 1) * chunkSize,
});

/**
 * Returns the number of positions in each of the `2 * size` chunks of a sequence.
 *
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that cannot be divided into `2 *
 *   size` equal chunks
 */
export function computeChunkSize(sequenceLength: number, size: number): number {
  const numChunks = 2 * size;
  if (sequenceLength % numChunks === 0) return sequenceLength / numChunks;
  throw new ConfigurationError(
    'MTL_CONTEXT_PARALLEL_SIZE',
    `${sequenceLength} positions cannot be divided over ${size} processes, which own two equal chunks each`,
    {
      expected: `a multiple of ${numChunks}`,
      remedy: `choose a sequence of ${Math.ceil(sequenceLength / numChunks) * numChunks} positions, or fewer processes`,
      details: { sequenceLength, size },
    },
  );
}

/**
 * Lists all chunks in process order (one process after the other): the index of each chunk in this order, and
 * its number in the sequence.
 */
const listPlaces = (size: number): ReadonlyArray<{ readonly place: number; readonly chunk: number }> =>
  Array.from({ length: size }, (_, rank) => chunksOfRank(rank, size))
    .flat()
    .map((chunk, place) => ({ place, chunk }));

/**
 * Makes the chunks for sequences [S, B] that are all divided in the same way: chunk k has c positions and
 * begins at position `k * c`. Masks and dropout receive the positions of a chunk's first query and first key.
 */
export function sequenceChunks({
  group,
  sequenceLength,
  batchSize,
}: {
  readonly group: ProcessGroup;
  readonly sequenceLength: number;
  readonly batchSize: number;
}): Chunks {
  const { size } = group;
  const chunkSize = computeChunkSize(sequenceLength, size);
  const copied = (
    input: Tensor,
    way: (at: { readonly place: number; readonly chunk: number }) => { from: number; to: number },
  ): Tensor => {
    const { shape, dtype, device } = input;
    const output = Tensor.empty({ shape, dtype, device });
    for (const at of listPlaces(size)) {
      const { from, to } = way(at);
      const [source, target] = [chunkSlice(from, chunkSize), chunkSlice(to, chunkSize)];
      using rows = input.rows(source.start, source.end);
      using place = output.rows(target.start, target.end);
      cast({ output: place, input: rows });
    }
    return output;
  };
  return {
    group,
    perProcess: 2,
    ofRank: (rank) => chunksOfRank(rank, size),
    shape: [chunkSize, batchSize],
    statisticsShape: (numHeads) => [batchSize, numHeads, chunkSize],
    enter: (rows) => rows.reshape(rows.shape),
    into: (target, write) => write(target),
    inSequenceOrder: (byProcess) => copied(byProcess, ({ place, chunk }) => ({ from: place, to: chunk })),
    inProcessOrder: (inSequence) => copied(inSequence, ({ place, chunk }) => ({ from: chunk, to: place })),
    mayBeSeen: ({ visibility: { causal = false, windowSize } = {} }, { queries, keys }) => {
      if (!causal) return true;
      if (keys > queries) return false;
      // in these chunks, the first query and the last key are the pair of a query and a key with the smallest
      // distance
      return windowSize === undefined || (queries - keys - 1) * chunkSize + 1 <= windowSize;
    },
    optionsOfPair: (call, { queries, keys }) =>
      chunkOptions(call, { visibility: { firstQuery: queries * chunkSize, firstKey: keys * chunkSize } }),
    optionsOfAll: (call, queries) => ({
      numRows: (call.visibility?.causal === true ? queries + 1 : 2 * size) * chunkSize,
      options: chunkOptions(call, { visibility: { firstQuery: queries * chunkSize } }),
    }),
    wholeStatisticsShape: (numHeads) => [batchSize, numHeads, sequenceLength],
    wholeOptions: (call) => chunkOptions(call, {}),
  };
}
