import { ConfigurationError } from '@mtl/errors';
import type { Slice } from '@mtl/kernels';

/**
 * The chunks that a process owns of a sequence of 2 n equal ones, n being the processes that share it: one
 * from either end, so that causal attention is the same work for all (zigzag).
 */
export const chunksOfRank = (rank: number, size: number): readonly [number, number] => [
  rank,
  2 * size - 1 - rank,
];

/** Positions of a chunk. */
export const chunkSlice = (chunk: number, chunkSize: number): Slice => ({
  start: chunk * chunkSize,
  end: (chunk + 1) * chunkSize,
});

/**
 * Positions of one of the 2 n chunks of a sequence.
 *
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that has no 2 n equal chunks
 */
export function chunkSizeOf(sequenceLength: number, size: number): number {
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
