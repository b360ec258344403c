import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import type { PackedParts, Part } from './packed-chunks.js';
import type { PackedSamplesOfBatch } from './rows-of-batch.js';

/**
 * Rows of samples that see all their keys, a slice of them for each process: without causality every row of a
 * sample is as much work.
 *
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for rows that have no n equal slices
 */
export function rowChunks(
  { numRows, starts, sampleNumbers }: PackedSamplesOfBatch,
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
    Array.from(sampleNumbers, (_number, sample): Part => {
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
