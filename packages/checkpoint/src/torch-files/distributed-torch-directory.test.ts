import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DistributedTorchDirectory } from './distributed-torch-directory.js';
import { writeDistributedTorchDirectory } from './write-distributed-torch-directory.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'distributed-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Writes a [2, 2, 3] tensor of two layers in two boxes, one per layer, and a vector. */
async function write(): Promise<void> {
  const chunk = (offsets: readonly number[], sizes: readonly number[], first: number) => ({
    offsets,
    sizes,
    read: () => {
      const length = sizes.reduce((product, size) => product * size, 1);
      return new Uint8Array(Float32Array.from({ length }, (_, index) => first + index).buffer);
    },
  });
  await writeDistributedTorchDirectory({
    directory,
    tensors: [
      {
        ...({ name: 'layers', dtype: 'F32', shape: [2, 2, 3] } as const),
        chunks: [chunk([0, 0, 0], [1, 2, 3], 0), chunk([1, 0, 0], [1, 2, 3], 6)],
      },
      { name: 'vector', dtype: 'F32', shape: [2], chunks: [chunk([0], [2], 100)] },
    ],
  });
}

/** Replaces the string `from` in the metadata with `to`, which must have the same length. */
async function damage(from: string, to: string): Promise<void> {
  const path = join(directory, '.metadata');
  const text = (await readFile(path)).toString('latin1');
  expect(text).toContain(from);
  writeFileSync(path, Buffer.from(text.replaceAll(from, to), 'latin1'));
}

describe('DistributedTorchDirectory', () => {
  it('reads tensors, and boxes across what was stored apart', async () => {
    await write();
    const opened = await DistributedTorchDirectory.open(directory);
    expect([...opened.tensors.keys()]).toEqual(['layers', 'vector']);
    const numbers = async (options: Parameters<typeof opened.read>[0]) => {
      const bytes = await opened.read(options);
      return [...new Float32Array(bytes.buffer)];
    };
    expect(await numbers({ name: 'layers' })).toEqual(Array.from({ length: 12 }, (_, index) => index));
    const slices = [
      { start: 0, end: 2 },
      { start: 1, end: 2 },
      { start: 1, end: 3 },
    ];
    expect(await numbers({ name: 'layers', slices })).toEqual([4, 5, 10, 11]);
    expect(await numbers({ name: 'vector' })).toEqual([100, 101]);
    await expect(opened.read({ name: 'layer' })).rejects.toMatchObject({ expected: '"layers"' });
    const target = new Uint8Array(4);
    await expect(opened.read({ name: 'vector', target })).rejects.toMatchObject({
      code: 'MTL_TORCH_FILE_TARGET',
      expected: '8',
    });
  });

  it('refuses files that are not next to it', async () => {
    await write();
    await damage('__0_0.distcp', '../../secret');
    await expect(DistributedTorchDirectory.open(directory)).rejects.toMatchObject({
      code: 'MTL_TORCH_FILE_INVALID',
      message: expect.stringContaining('which is no file next to it') as string,
    });
  });

  it('refuses items that their file does not contain', async () => {
    await write();
    writeFileSync(join(directory, '__0_0.distcp'), Buffer.alloc(100));
    await expect(DistributedTorchDirectory.open(directory)).rejects.toMatchObject({
      message: expect.stringContaining('it was cut off') as string,
    });
  });

  it('refuses a tensor that is not covered', async () => {
    await write();
    const two = Buffer.from([0x4a, 2, 0, 0, 0]).toString('latin1');
    const three = Buffer.from([0x4a, 3, 0, 0, 0]).toString('latin1');
    // shapes [3, 3, 3] and [3]
    await damage(two, three);
    await expect(DistributedTorchDirectory.open(directory)).rejects.toMatchObject({
      code: 'MTL_TORCH_FILE_INVALID',
      message: expect.stringContaining('elements are in no piece') as string,
    });
  });

  it('refuses what has another dtype in its file', async () => {
    await write();
    await damage('float32', 'float64');
    const opened = await DistributedTorchDirectory.open(directory);
    await expect(opened.read({ name: 'vector' })).rejects.toMatchObject({
      message: expect.stringContaining('vector[0:2] is stored as F32 [2]') as string,
      expected: 'F64 [2], contiguous',
    });
  });
});
