import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Slice } from '@mtl/layout';
import { describe, expect, it } from 'vitest';
import {
  BackgroundSaver,
  Checkpoint,
  type Dtype,
  findCheckpoint,
  type HostTensor,
  hostTensor,
  type LogicalTensor,
  loadCheckpoint,
  SafetensorsFile,
  saveCheckpoint,
  verifyCheckpoint,
} from '../src/index.js';
import { inProcessBarriers } from './support/in-process-barriers.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const name = 'optimizer.exp_avg_sq.weight';

/** Returns some or all rows of a matrix of [4, 3] ones, in which one value may be another. */
function matrix({
  rows = { start: 0, end: 4 },
  value = 1,
  limit,
}: {
  rows?: Slice;
  value?: number;
  limit?: number;
}): HostTensor {
  const values = new Float32Array(3 * (rows.end - rows.start)).fill(1);
  values[4] = value;
  const memory = new Uint8Array(values.buffer);
  const slices = [rows, { start: 0, end: 3 }];
  return hostTensor({
    name,
    dtype: 'F32',
    globalShape: [4, 3],
    slices,
    memory,
    ...(limit === undefined ? {} : { limit: { magnitude: limit, why: 'too large' } }),
  });
}

/** Returns a tensor of another dtype, with 2 or 4 bytes per element, in which one element has these bits. */
function vector(dtype: Dtype, bits: number): LogicalTensor {
  const memory = new Uint8Array(dtype === 'F32' ? 8 : 4);
  new DataView(memory.buffer).setUint16(memory.length - 2, bits, true);
  return hostTensor({ name: 'vector', dtype, globalShape: [2], memory });
}

const save = (iteration: number, tensors: readonly LogicalTensor[]) => ({
  directory: temporary.path,
  iteration,
  tensors,
  state: {},
  keepLast: 1,
});

async function expectOnly(iteration: number): Promise<void> {
  const saved = `iter_${String(iteration).padStart(7, '0')}`;
  expect(await readdir(temporary.path)).toEqual([saved, 'latest_checkpointed_iteration.txt']);
  const tracker = join(temporary.path, 'latest_checkpointed_iteration.txt');
  expect(await readFile(tracker, 'utf8')).toBe(String(iteration));
  const checkpoint = await Checkpoint.open(join(temporary.path, saved));
  await verifyCheckpoint(checkpoint, { requireFinite: true });
}

describe('a save of a value that is not finite', () => {
  it('is refused by tensor, element and iteration, and changes nothing', async () => {
    await saveCheckpoint(save(1, [matrix({})]));
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      await expect(saveCheckpoint(save(2, [matrix({ value })]))).rejects.toMatchObject({
        code: 'MTL_NOT_FINITE',
        exitCode: 1,
        message: expect.stringContaining(
          `iteration 2: ${name}[1, 1] is ${value}; this checkpoint was not pub`,
        ),
        remedy: expect.stringContaining('--lr'),
        details: { name, position: [1, 1], value },
      });
      await expectOnly(1);
    }
  });

  it('is refused in narrow dtypes', async () => {
    const bad = [vector('F32', 0x7f80), vector('BF16', 0xff80), vector('F16', 0x7c00), vector('F16', 0x7e00)];
    for (const tensor of bad) {
      const saved = saveCheckpoint(save(1, [tensor]));
      await expect(saved).rejects.toMatchObject({ code: 'MTL_NOT_FINITE', details: { position: [1] } });
    }
    await saveCheckpoint(save(1, [vector('BF16', 0x7f7f)]));
    await saveCheckpoint(save(2, [vector('U16', 0xffff)]));
    await expectOnly(2);
  });

  it('is refused from the limit of a tensor on', async () => {
    await saveCheckpoint(save(1, [matrix({ value: 99, limit: 100 })]));
    await expect(saveCheckpoint(save(2, [matrix({ value: -100, limit: 100 })]))).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: expect.stringContaining(`${name}[1, 1] is -100, too large;`),
    });
    await expectOnly(1);
  });

  it.for(['at once', 'in the background'])('fails on all ranks, %s', async (how) => {
    await saveCheckpoint(save(1, [matrix({})]));
    const held = [
      matrix({ rows: { start: 0, end: 2 } }),
      matrix({ rows: { start: 2, end: 4 }, value: Number.NaN }),
    ];
    const outcomes = await Promise.allSettled(
      inProcessBarriers(2).map(async (barrier, rank) => {
        const options = { ...save(2, [held[rank]!]), rank, worldSize: 2, barrier };
        if (how === 'at once') return await saveCheckpoint(options);
        const saver = new BackgroundSaver();
        await saver.begin(options);
        return await saver.finish();
      }),
    );
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: { code: 'MTL_CHECKPOINT_PEER' } },
      { status: 'rejected', reason: { code: 'MTL_NOT_FINITE', details: { name, position: [3, 1] } } },
    ]);
    await expectOnly(1);
  });

  it('goes ahead where that is asked for', async () => {
    await saveCheckpoint({ ...save(1, [matrix({ value: Number.NaN })]), requireFinite: false });
    expect(await readdir(temporary.path)).toContain('iter_0000001');
  });
});

describe('a checkpoint with a value that is not finite', () => {
  const saveBad = async (): Promise<Checkpoint> => {
    const tensors = [matrix({ value: Number.NEGATIVE_INFINITY }), vector('F32', 1)];
    const { path } = await saveCheckpoint({ ...save(7, tensors), requireFinite: false });
    return await Checkpoint.open(path);
  };
  const refused = {
    code: 'MTL_NOT_FINITE',
    exitCode: 2,
    message: expect.stringMatching(/iter_0000007: optimizer\.exp_avg_sq\.weight\[1, 1\] is -Infinity$/),
  };

  it('is not loaded, whether its bytes were checked before or not', async () => {
    const checkpoint = await saveBad();
    const tensors = [matrix({}), vector('F32', 0)];
    for (const verify of [true, false]) {
      await expect(loadCheckpoint({ checkpoint, tensors, verify })).rejects.toMatchObject(refused);
    }
    // a load ignores values of a tensor that it does not read
    const ignore = (tensor: string): boolean => tensor === name;
    await loadCheckpoint({ checkpoint, tensors: [vector('F32', 0)], ignore });
    const target = matrix({});
    await loadCheckpoint({ checkpoint, tensors: [target], ignore: () => true, requireFinite: false });
    expect(target.memory).toEqual(matrix({ value: Number.NEGATIVE_INFINITY }).memory);
  });

  it('is whole, and found as such', async () => {
    const checkpoint = await saveBad();
    await verifyCheckpoint(checkpoint);
    await expect(verifyCheckpoint(checkpoint, { requireFinite: true })).rejects.toMatchObject(refused);
    const found = await findCheckpoint({ directory: temporary.path, onNotice: () => {} });
    expect(found).toMatchObject({ kind: 'found', skipped: [] });
  });

  it('is refused in a read of its file, by file and element', async () => {
    const { path } = await saveBad();
    await using file = await SafetensorsFile.open(join(path, 'shard-00000-000.safetensors'));
    await expect(file.read({ name, requireFinite: true })).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: expect.stringMatching(
        /shard-00000-000\.safetensors: optimizer\.exp_avg_sq\.weight\[1, 1\] is -I/,
      ),
    });
    await file.readRows({ name, start: 2, end: 4 });
    await file.read({ name: 'vector', requireFinite: true });
  });
});
