import type { ProcessGroup } from '@mtl/comm';
import { describe, expect, it } from 'vitest';
import {
  bordersOfDocuments,
  type Document,
  documentChunks,
  listDocuments,
  rowChunks,
} from './packed-parts.js';
import { chunksOfRank } from './sequence-chunks.js';

const makeGroup = (rank: number, size: number) => ({ rank, size }) as ProcessGroup;

/** Returns the first position of each position's document, [B, S]. */
const makeKeyStart = (sequences: ReadonlyArray<readonly number[]>): Int32Array =>
  Int32Array.from(
    sequences.flatMap((lengths) => {
      let start = 0;
      return lengths.flatMap((length) => {
        const first = start;
        start += length;
        return new Array<number>(length).fill(first);
      });
    }),
  );

/** Makes deterministic documents of 1 to `most` positions that fill a sequence. */
function makeLengths(sequenceLength: number, most: number, seed: number): number[] {
  const lengths: number[] = [];
  let state = seed;
  for (let left = sequenceLength; left > 0; left -= lengths.at(-1)!) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    lengths.push(Math.min(left, 1 + (state % most)));
  }
  return lengths;
}

describe('documents of sequences', () => {
  it('are told by their first keys', () => {
    expect(listDocuments(makeKeyStart([[3, 1], [4]]), 4)).toEqual<Document[]>([
      { sample: 0, start: 0, end: 3 },
      { sample: 0, start: 3, end: 4 },
      { sample: 1, start: 0, end: 4 },
    ]);
  });

  it('begin where they say', () => {
    expect(() => listDocuments(Int32Array.of(0, 0, 1, 1), 4)).toThrow(
      /the first key of position 2 of sample 0 is 1$/,
    );
  });

  // documents of 8 and 4 positions over two processes: the processes have the positions 0, 1, 6, 7 and 2, 3,
  // 4, 5 of the first document, and 0, 3 and 1, 2 of the second
  it('have two chunks of each process, one from either end', () => {
    const keyStart = makeKeyStart([[8, 4]]);
    const batch = { batchSize: 1, sequenceLength: 12, sampleNumbers: Float64Array.of(7), keyStart };
    const own = [0, 1].map((rank) =>
      documentChunks(batch, { group: makeGroup(rank, 2), isLaunchedAgain: false }),
    );
    expect([...own[0]!.indices]).toEqual([0, 1, 8, 6, 7, 11]);
    expect([...own[1]!.indices]).toEqual([2, 3, 9, 4, 5, 10]);
    expect(own[0]!.sampleNumbers).toEqual([7n, 7n]);
  });

  it.each([2, 3, 4, 8])(
    'give each of %i processes the same number of positions and nearly the same work',
    (size) => {
      const sequenceLength = 96 * size;
      const sequences = [5, 40, 300].map((most, seed) => makeLengths(sequenceLength, most, seed));
      const documents = listDocuments(makeKeyStart(sequences), sequenceLength);
      const borders = bordersOfDocuments(documents, { sequenceLength, size });
      const findStart = (of: number) => documents[of]!.start;
      sequences.forEach((_, sample) => {
        const pairs = Array.from({ length: size }, (_rank, rank) => {
          let [positions, work] = [0, 0];
          borders.forEach((of, document) => {
            if (documents[document]!.sample !== sample) return;
            for (const chunk of chunksOfRank(rank, size)) {
              for (let at = of[chunk]!; at < of[chunk + 1]!; at++, positions++)
                work += at - findStart(document) + 1;
            }
          });
          expect(positions).toBe(sequenceLength / size);
          return work;
        });
        const numDocuments = documents.filter((document) => document.sample === sample).length;
        const longest = Math.max(...sequences[sample]!);
        // if a document has one more position, the number of pairs grows at most by the pairs of this
        // position
        expect(Math.max(...pairs) - Math.min(...pairs)).toBeLessThanOrEqual(numDocuments * longest);
        const mean = pairs.reduce((sum, each) => sum + each, 0) / size;
        expect(Math.max(...pairs) / mean).toBeLessThan(1.15);
      });
    },
  );

  it('leave no position out, and have the same rows whichever process computes them', () => {
    const keyStart = makeKeyStart([
      [5, 1, 10],
      [2, 2, 9, 3],
    ]);
    const batch = { batchSize: 2, sequenceLength: 16, sampleNumbers: Float64Array.of(3, 4), keyStart };
    const own = [0, 1].map((rank) =>
      documentChunks(batch, { group: makeGroup(rank, 2), isLaunchedAgain: false }),
    );
    const all = own.flatMap(({ indices }) => [...indices]);
    expect(all.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 32 }, (_, index) => index));
    expect(own[0]!.places).toEqual(own[1]!.places);
    // the rows of a chunk are stored one sequence after the other: [chunks, B, c] in place of [chunks, c, B]
    own.forEach(({ indices, places }, rank) => {
      indices.forEach((index, row) => {
        const [half, inChunk, sample] = [Math.floor(row / 8), Math.floor((row % 8) / 2), row % 2];
        const place = rank * 16 + half * 8 + sample * 4 + inChunk;
        expect(places![sample * 16 + Math.floor(index / 2)]).toBe(place);
      });
    });
  });

  it('are a power of two where passes are launched again', () => {
    const keyStart = makeKeyStart([[5, 1, 10]]);
    const batch = { batchSize: 1, sequenceLength: 16, sampleNumbers: Float64Array.of(3), keyStart };
    const { parts, sampleNumbers } = documentChunks(batch, { group: makeGroup(0, 2), isLaunchedAgain: true });
    expect(sampleNumbers).toHaveLength(4);
    expect(parts.map((of) => of[3])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it('need two equal chunks of a sequence for each process', () => {
    const keyStart = makeKeyStart([[5, 5]]);
    const batch = { batchSize: 1, sequenceLength: 10, sampleNumbers: Float64Array.of(3), keyStart };
    expect(() => documentChunks(batch, { group: makeGroup(0, 2), isLaunchedAgain: false })).toThrow(
      expect.objectContaining({ code: 'MTL_CONTEXT_PARALLEL_SIZE' }),
    );
  });
});

describe('rows of packed samples', () => {
  it('have a slice for each process, with its part of every sample', () => {
    const batch = { numRows: 8, starts: Int32Array.of(0, 3, 7), sampleNumbers: Float64Array.of(5, 6) };
    const { parts, indices, chunkSize } = rowChunks(batch, makeGroup(1, 2));
    expect(chunkSize).toBe(4);
    expect([...indices]).toEqual([4, 5, 6, 7]);
    expect(parts).toEqual([
      [
        [0, 3],
        [0, 1],
      ],
      [
        [3, 3],
        [1, 4],
      ],
    ]);
  });

  it('are a multiple of the processes', () => {
    const batch = { numRows: 7, starts: Int32Array.of(0, 3), sampleNumbers: Float64Array.of(5) };
    expect(() => rowChunks(batch, makeGroup(0, 2))).toThrow(
      /7 rows of packed samples cannot be divided over 2 processes/,
    );
  });
});
