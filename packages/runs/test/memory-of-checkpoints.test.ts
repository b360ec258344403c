import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MeasuredMove, Move, MoveCheckpointsArgument } from './ranks/move-checkpoints.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

const MiB = 1024 * 1024;
/**
 * Growth of V8's heap by tables and promises, stacks of reading threads, buffers of shared memory: measured
 * up to 5 MiB.
 */
const besides = 8 * MiB;
/**
 * Bytes of blocks that a load reads at a time: four blocks of 4 MiB, for data that is laid out differently in
 * the target.
 */
const readBlocks = 16 * MiB;

const plain = { tensorParallelSize: 1, distributed: false };
const distributed = { tensorParallelSize: 1, distributed: true };
const tensor = { tensorParallelSize: 2, distributed: false };

/** The moves in order: later moves use the output of earlier ones. */
const moves: readonly {
  readonly name: string;
  readonly move: Move;
  readonly worldSize: number;
  readonly layout: Pick<MoveCheckpointsArgument, 'tensorParallelSize' | 'distributed'>;
  readonly directory: string;
  /** Returns the memory that may be in use at a time, in boxes of this rank and whole tensors. */
  readonly bound: (sizes: MeasuredMove) => number;
  /** Returns the memory that a move would need if it did everything at once. */
  readonly all: (sizes: MeasuredMove) => number;
}[] = [
  {
    name: 'save on 2 ranks of a distributed optimizer',
    move: 'save',
    worldSize: 2,
    layout: distributed,
    directory: 'checkpoints',
    bound: ({ largestBox }) => largestBox,
    all: ({ everything }) => everything,
  },
  {
    name: 'load on tp 2',
    move: 'load',
    worldSize: 2,
    layout: tensor,
    directory: 'checkpoints',
    bound: ({ largestBox }) => largestBox + readBlocks,
    all: ({ everything }) => everything,
  },
  {
    name: 'Hugging Face export of a checkpoint',
    move: 'export from checkpoint',
    worldSize: 1,
    layout: plain,
    directory: 'checkpoints',
    // memory for the tensor as stored, and in the other layout
    bound: ({ largestTensor }) => 2 * largestTensor + readBlocks,
    all: ({ allWeights }) => allWeights,
  },
  {
    name: 'Hugging Face export on tp 2',
    move: 'export',
    worldSize: 2,
    layout: tensor,
    directory: 'hugging-face',
    // memory for the whole tensor, and in the other layout; the own slice, the slice of the other process,
    // and a copy
    bound: ({ largestTensor, largestBox }) => 2 * largestTensor + 3 * largestBox,
    all: ({ allWeights }) => allWeights,
  },
  {
    name: 'Hugging Face import on tp 2',
    move: 'import',
    worldSize: 2,
    layout: tensor,
    directory: 'hugging-face',
    // memory for the tensor as stored, in the other layout, and for the box
    bound: ({ largestTensor, largestBox }) => 2 * largestTensor + largestBox,
    all: ({ allWeights }) => allWeights,
  },
];

describe('moving a checkpoint takes the memory of its largest shard', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-moves-'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(moves)(
    '$name',
    async ({ move, worldSize, layout, bound, all, ...rest }) => {
      // separate processes for each move: memory that an earlier move has freed would be reused
      const ranks = await runProcesses<MeasuredMove>({
        worldSize,
        module: new URL('./ranks/move-checkpoints.ts', import.meta.url),
        argument: { ...layout, move, directory: join(directory, rest.directory) },
      });
      for (const sizes of ranks) {
        expect(bound(sizes) + besides).toBeLessThan(0.8 * all(sizes));
        expect(sizes.resident).toBeLessThan(bound(sizes) + besides);
      }
    },
    processTestMs,
  );
});
