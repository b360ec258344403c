import type { ProcessGroup } from '@mtl/comm';
import type { Chunks, RowOrder } from './chunks.js';
import {
  PackedChunks,
  type PackedParts,
  PackedRowOrder,
  type SampleSpan,
  type UploadOptions,
} from './packed-chunks.js';
import { chunksOfRank, computeChunkSize, sequenceChunks } from './sequence-chunks.js';

// This file divides the processes over which sequences are sharded into blocks of n neighbours. Process r has
// position `r % n` in block `floor(r / n)`. The chunks of all processes in a block form two larger chunks of
// a sequence, the same chunks that one process would own if each block were one process.

/** The two levels of processes over which sequences are sharded. */
export interface ContextLevels {
  /** The n processes of this process's block, which exchange heads with each other. */
  readonly heads: ProcessGroup;
  /**
   * This process and the processes at the same position in the other blocks; keys and values are passed
   * around this ring.
   */
  readonly ring: ProcessGroup;
}

/** The row order and the chunks with which the two levels compute. */
export interface BlockChunks {
  /** The conversion between the rows of a block's processes and the rows of its chunks. */
  readonly order: RowOrder;
  /** The chunks of the sequences if each block counts as one process. */
  readonly chunks: Chunks;
  release(): void;
}

/** Returns the blocks for sequences that are all divided in the same way. */
export function blocksOfSequences(
  { heads, ring }: ContextLevels,
  { sequenceLength, batchSize }: { readonly sequenceLength: number; readonly batchSize: number },
): BlockChunks {
  const ofBlock = 2 * computeChunkSize(sequenceLength, ring.size);
  return {
    order: sequenceChunks({ group: heads, sequenceLength: ofBlock, batchSize }),
    chunks: sequenceChunks({ group: ring, sequenceLength, batchSize }),
    release: () => {},
  };
}

/** Returns the blocks for packed samples, given the chunks of individual processes. */
export function blocksOfPackedSamples(
  { heads, ring }: ContextLevels,
  packed: PackedParts,
  options: UploadOptions,
): BlockChunks {
  const { size } = heads;
  const parts = Array.from({ length: packed.parts.length / size }, (_, chunk) => {
    const [first, last] = [packed.parts[chunk * size]!, packed.parts[(chunk + 1) * size - 1]!];
    return first.map(([start], sample): SampleSpan => [start, last[sample]![1]]);
  });
  const perProcess = parts.length / ring.size;
  const isZigzag = perProcess === 2;
  const order = new PackedRowOrder(
    {
      group: heads,
      perProcess,
      columns: packed.columns,
      // slices of rows already have the right order
      places: isZigzag ? placesInBlock({ heads, ring }, packed) : undefined,
    },
    options,
  );
  const chunks = new PackedChunks(
    {
      ...packed,
      group: ring,
      chunkSize: packed.chunkSize * size,
      parts,
      ofRank: isZigzag ? (rank) => chunksOfRank(rank, ring.size) : (rank) => [rank],
      // 1, because the exchange of heads has already transposed the rows
      columns: 1,
      places: undefined,
    },
    options,
  );
  return {
    order,
    chunks,
    release: () => {
      order.release();
      chunks.release();
    },
  };
}

/**
 * Returns, for each row of a block's two chunks, the row's position among the rows of the block's processes.
 * The rows of chunks are in the order of documents.
 */
function placesInBlock({ heads, ring }: ContextLevels, { parts, chunkSize }: PackedParts): Int32Array {
  const { size } = heads;
  const places = new Int32Array(2 * size * chunkSize);
  let row = 0;
  chunksOfRank(ring.rank, ring.size).forEach((chunk, half) => {
    const own = Array.from({ length: size }, (_, at) => ({
      // in the second half of a sequence, the parts are assigned to the processes in reverse order
      process: half === 0 ? at : size - 1 - at,
      part: parts[chunk * size + at]!,
      next: 0,
    }));
    parts[0]!.forEach((_, sample) => {
      for (const each of own) {
        const [start, end] = each.part[sample]!;
        for (let position = start; position < end; position++) {
          places[row++] = (2 * each.process + half) * chunkSize + each.next++;
        }
      }
    });
  });
  return places;
}
