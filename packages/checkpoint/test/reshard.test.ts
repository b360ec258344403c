import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  Checkpoint,
  type LogicalTensor,
  loadCheckpoint,
  saveCheckpoint,
  slicesOfFlatRange,
} from '../src/index.js';
import { inProcessBarriers } from './support/in-process-barriers.js';
import { arbitraryLayoutCase, boxTensor, bytesOfBox } from './support/layouts.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();

/** Saves `tensors` from several ranks of this process; rank `holders[i]` holds tensor i. */
async function saveFromRanks(options: {
  readonly directory: string;
  readonly iteration: number;
  readonly tensors: readonly LogicalTensor[];
  readonly holders: readonly number[];
  readonly worldSize: number;
  readonly maxShardBytes: number;
}): Promise<Checkpoint> {
  const { worldSize, tensors, holders, ...rest } = options;
  const barriers = inProcessBarriers(worldSize);
  const results = await Promise.all(
    barriers.map((barrier, rank) =>
      saveCheckpoint({
        ...rest,
        tensors: tensors.filter((_, index) => holders[index] === rank),
        state: {},
        // any bytes, NaN included
        requireFinite: false,
        rank,
        worldSize,
        barrier,
      }),
    ),
  );
  return await Checkpoint.open(results[0]!.path);
}

it('any layout loads exactly into any other', { tags: ['whole'] }, async () => {
  let iteration = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(arbitraryLayoutCase, { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 300 }),
      fc.boolean(),
      fc.nat(),
      async (cases, worldSize, maxShardBytes, verify, seed) => {
        const saved = cases.flatMap(({ dtype, shape, saved: boxes }, tensor) =>
          boxes.map((slices) =>
            boxTensor({ name: `t${tensor}`, tensor, dtype, shape, slices, filled: true }),
          ),
        );
        const holders = saved.map((_, index) => (index * 7 + seed) % worldSize);
        const directory = join(temporary.path, String(iteration));
        const checkpoint = await saveFromRanks({
          directory,
          iteration: iteration++,
          tensors: saved,
          holders,
          worldSize,
          maxShardBytes,
        });
        const loaded = cases.flatMap(({ dtype, shape, loaded: boxes }, tensor) =>
          boxes.map((slices) =>
            boxTensor({ name: `t${tensor}`, tensor, dtype, shape, slices, filled: false }),
          ),
        );
        const { bytesLoaded, bytesRead } = await loadCheckpoint({
          checkpoint,
          tensors: loaded,
          verify,
          requireFinite: false,
        });
        let index = 0;
        for (const [tensor, { dtype, shape, loaded: boxes }] of cases.entries()) {
          for (const slices of boxes) {
            const right = bytesOfBox({ tensor, dtype, shape, slices });
            expect(Buffer.compare(loaded[index++]!.memory, right)).toBe(0);
          }
        }
        expect(bytesLoaded).toBe(saved.reduce((sum, { memory }) => sum + memory.length, 0));
        // Every load reads at most the complete stored boxes that it overlaps.
        expect(bytesRead).toBeGreaterThanOrEqual(verify ? 0 : bytesLoaded);
        await rm(directory, { recursive: true });
      },
    ),
    { numRuns: 150 },
  );
});

it('a rank that needs rows reads little more than them', async () => {
  const shape = [64, 256, 1024];
  const memory = new Uint8Array(64 * 256 * 1024 * 4);
  for (let index = 0; index < memory.length; index += 4096) memory[index] = index / 4096;
  const whole = { name: 'w', dtype: 'F32' as const, globalShape: shape };
  const slices = shape.map((size) => ({ start: 0, end: size }));
  const tensor = { ...whole, slices, read: () => memory, write: () => undefined };
  const { path } = await saveCheckpoint({
    directory: temporary.path,
    iteration: 1,
    tensors: [tensor],
    state: {},
  });
  const checkpoint = await Checkpoint.open(path);
  const rows = [{ start: 10, end: 18 }, slices[1]!, slices[2]!];
  const wantedBytes = 8 * 256 * 1024 * 4;
  for (const verify of [false, true]) {
    let seen: Uint8Array | undefined;
    const target: LogicalTensor = {
      ...tensor,
      slices: rows,
      write: (bytes) => {
        seen = bytes.slice();
      },
    };
    const { bytesRead } = await loadCheckpoint({ checkpoint, tensors: [target], verify });
    expect(Buffer.compare(seen!, memory.subarray(10 * 256 * 4096, 18 * 256 * 4096))).toBe(0);
    // With checksums whole blocks of 4 MiB are read: at most one more at each end.
    expect(bytesRead).toBeLessThanOrEqual(verify ? wantedBytes + 2 * 4 * 1024 * 1024 : wantedBytes);
  }
});

it('flat ranges become boxes that follow each other without gap', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 6 })), { maxLength: 4 }),
      fc.nat(1300),
      fc.nat(1300),
      (dims, a, b) => {
        const slices = dims.map(([start, size]) => ({ start, end: start + size }));
        const shape = dims.map(([start, size]) => start + size);
        const volume = dims.reduce((product, [, size]) => product * size, 1);
        const [start, end] = [Math.min(a, b) % (volume + 1), Math.max(a, b) % (volume + 1)].sort(
          (x, y) => x - y,
        );
        const parts = slicesOfFlatRange({ slices, start: start!, end: end! });
        const flat = Buffer.concat(
          parts.map((part) => bytesOfBox({ tensor: 0, dtype: 'U8', shape, slices: part.slices })),
        );
        const box = bytesOfBox({ tensor: 0, dtype: 'U8', shape, slices });
        expect(Buffer.compare(flat, box.subarray(start, end))).toBe(0);
        expect(parts.length).toBeLessThanOrEqual(Math.max(2 * dims.length, 1));
        let offset = 0;
        for (const part of parts) {
          expect(part.offset).toBe(offset);
          offset += part.length;
        }
      },
    ),
    { numRuns: 500 },
  );
});
