import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  findCheckpoint,
  type HostTensor,
  hostTensor,
  saveCheckpoint,
  type TensorsToLoad,
} from '../src/index.js';
import { countBytesRead } from './support/count-bytes-read.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const shard = 'shard-00000-000.safetensors';
/** The rows of the large tensor, which has three blocks of checksums. */
const numRows = 2560;

/** Makes a state of 10 MiB whose bytes depend on the iteration. */
const makeState = (iteration: number): HostTensor[] => [
  hostTensor({
    name: 'model.weight',
    dtype: 'F32',
    globalShape: [numRows, 1024],
    memory: new Uint8Array(numRows * 4096).map((_, index) => (iteration * 31 + (index >> 12)) % 127),
  }),
  hostTensor({
    name: 'optimizer.weight',
    dtype: 'U8',
    globalShape: [1024],
    memory: new Uint8Array(1024).fill(iteration),
  }),
];

const save = (iteration: number) =>
  saveCheckpoint({ directory: temporary.path, iteration, tensors: makeState(iteration), state: {} });

/** Makes the tensor of a rank that holds only the last rows. */
function lastRows(numHeld: number): HostTensor {
  const slices = [
    { start: numRows - numHeld, end: numRows },
    { start: 0, end: 1024 },
  ];
  const memory = new Uint8Array(numHeld * 4096);
  return hostTensor({ name: 'model.weight', dtype: 'F32', globalShape: [numRows, 1024], slices, memory });
}

const load = (tensor: HostTensor): TensorsToLoad => ({
  tensors: [tensor],
  ignore: (name) => name.startsWith('optimizer.'),
});

/** Finds a checkpoint, and loads a tensor from it on the way. */
async function find(tensor: HostTensor, { step }: { readonly step?: number } = {}) {
  const notices: string[] = [];
  const found = await findCheckpoint({
    directory: temporary.path,
    onNotice: (notice) => notices.push(notice),
    load: async () => load(tensor),
    ...(step === undefined ? {} : { step }),
  });
  if (found.kind !== 'found') return expect.fail(found.reason);
  return { ...found, notices };
}

/** Returns the bytes of the last rows as they were saved. */
const savedRows = (iteration: number, numHeld: number): Uint8Array =>
  makeState(iteration)[0]!.memory.subarray((numRows - numHeld) * 4096);

async function flipBit(path: string, position: number): Promise<void> {
  const bytes = await readFile(path);
  bytes[position] = bytes[position]! ^ 1;
  await writeFile(path, bytes);
}

describe('a checkpoint that is checked and loaded', () => {
  it.each([numRows, 1000, 3])('reads every byte once, if a rank holds %i rows', async (numHeld) => {
    const { path } = await save(10);
    const { size } = await stat(join(path, shard));
    const tensor = lastRows(numHeld);
    const count = await countBytesRead(() => find(tensor), { leastBytes: size });
    expect(Buffer.compare(tensor.memory, savedRows(10, numHeld))).toBe(0);
    // the header, of less than 4096 bytes, is read again when the shard is opened for the rest
    expect(count).toBeGreaterThanOrEqual(size);
    expect(count).toBeLessThan(size + 2 * 4096);
  });

  it.each([
    ['a byte that the rank loads', -2048],
    ['a byte that it does not need', 5000],
  ])('goes on with the values of an older one if %s is damaged', async (_, position) => {
    await save(10);
    const { path } = await save(20);
    const { size } = await stat(join(path, shard));
    await flipBit(join(path, shard), position < 0 ? size + position : position);
    const tensor = lastRows(3);
    const { checkpoint, isLoaded, notices } = await find(tensor);
    expect(checkpoint.iteration).toBe(10);
    expect(isLoaded).toBe(true);
    expect(notices[0]).toMatch(/skipped .*iter_0000020.*CRC-32/);
    expect(Buffer.compare(tensor.memory, savedRows(10, 3))).toBe(0);
    await expect(find(tensor, { step: 20 })).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_CORRUPT' });
  });

  it('refuses tensors of another shape before it reads, and values that are not finite', async () => {
    await save(10);
    const { path } = await save(20);
    const other = hostTensor({
      name: 'model.weight',
      dtype: 'F32',
      globalShape: [1, 2],
      memory: new Uint8Array(8),
    });
    await expect(find(other)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_MISMATCH' });
    expect(other.memory).toEqual(new Uint8Array(8));
    const infinite = makeState(30).map((tensor) => {
      tensor.memory.fill(0xff, 0, 8);
      return tensor;
    });
    await saveCheckpoint({
      directory: temporary.path,
      iteration: 30,
      tensors: infinite,
      state: {},
      requireFinite: false,
    });
    await expect(find(lastRows(numRows))).rejects.toMatchObject({ code: 'MTL_NOT_FINITE' });
    expect(path).toContain('iter_0000020');
  });

  it('only checks a candidate for which no tensors are given', async () => {
    await save(10);
    const asked: Checkpoint[] = [];
    const found = await findCheckpoint({
      directory: temporary.path,
      onNotice: () => {},
      load: async (candidate) => {
        asked.push(candidate);
        return undefined;
      },
    });
    expect(found).toMatchObject({ kind: 'found', isLoaded: false });
    expect(asked.map(({ iteration }) => iteration)).toEqual([10]);
  });
});
