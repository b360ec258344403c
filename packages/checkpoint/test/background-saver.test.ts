import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  BackgroundSaver,
  Checkpoint,
  type LogicalTensor,
  loadCheckpoint,
  saveCheckpoint,
} from '../src/index.js';
import { inProcessBarriers } from './support/in-process-barriers.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const state = { consumedSamples: 8 };

/** Returns the options of a save of this iteration. */
function save(iteration: number, tensors: readonly LogicalTensor[] = stateOfIteration(iteration)) {
  return { directory: temporary.path, iteration, tensors, state };
}

async function expectHolds(path: string, iteration: number): Promise<void> {
  const target = stateOfIteration(0, { zero: true });
  await loadCheckpoint({ checkpoint: await Checkpoint.open(path), tensors: target });
  expect(target.map(({ memory }) => memory)).toEqual(stateOfIteration(iteration).map(({ memory }) => memory));
}

describe('BackgroundSaver', () => {
  it('saves tensors as they were when it began, in the files that a save writes', async () => {
    const saver = new BackgroundSaver();
    const tensors = stateOfIteration(7);
    expect(saver).toMatchObject({ isSaving: false, isWritten: true });
    await saver.begin(save(7, tensors));
    expect(saver.isSaving).toBe(true);
    for (const { memory } of tensors) memory!.fill(255);
    expect(await readdir(temporary.path)).toEqual(['iter_0000007.saving']);
    const { path, bytes } = await saver.finish();
    expect(saver.isSaving).toBe(false);
    await expectHolds(path, 7);
    const whole = await saveCheckpoint(save(8, stateOfIteration(7)));
    expect(bytes).toBe(whole.bytes);
    const shard = 'shard-00000-000.safetensors';
    expect(await readFile(join(path, shard))).toEqual(await readFile(join(whole.path, shard)));
  });

  it('says when its shards are written, saves again into the same memory, and deletes the oldest', async () => {
    const saver = new BackgroundSaver();
    const targets: Uint8Array[] = [];
    for (const iteration of [1, 2, 3]) {
      const tensors = stateOfIteration(iteration).map(({ memory, ...tensor }) => {
        const readInto = (target: Uint8Array): void => {
          targets.push(target);
          target.set(memory!);
        };
        return { ...tensor, readInto };
      });
      await saver.begin({ ...save(iteration, tensors), keepLast: 2 });
      await expect.poll(() => saver.isWritten).toBe(true);
      await saver.finish();
    }
    expect(new Set(targets.map(({ buffer }) => buffer)).size).toBe(3);
    expect((await readdir(temporary.path)).sort()).toEqual([
      'iter_0000002',
      'iter_0000003',
      'latest_checkpointed_iteration.txt',
    ]);
    await expectHolds(join(temporary.path, 'iter_0000003'), 3);
  });

  it('lets tensors of other sizes follow', async () => {
    const saver = new BackgroundSaver();
    await saver.begin(save(1, stateOfIteration(1).slice(1)));
    await saver.finish();
    await saver.begin(save(2));
    await expectHolds((await saver.finish()).path, 2);
  });

  it('takes one save at a time', async () => {
    const saver = new BackgroundSaver();
    await expect(saver.finish()).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_OPTIONS' });
    await saver.begin(save(1));
    await expect(saver.begin(save(2))).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_OPTIONS' });
    await expectHolds((await saver.finish()).path, 1);
  });
});

describe('two ranks that save in the background', () => {
  /** Returns the savers of two ranks: rank 0 holds the weights, rank 1 the optimizer. */
  function ranks(
    more: { readonly readInto?: () => never; readonly beforeBarrier?: () => Promise<unknown> } = {},
  ) {
    const [weight, bias, optimizer] = stateOfIteration(5);
    const held = [[weight!, bias!], [{ ...optimizer!, ...(more.readInto && { readInto: more.readInto }) }]];
    return inProcessBarriers(2).map((wait, rank) => {
      const barrier = async (succeeded: boolean): Promise<boolean> => {
        if (rank === 0) await more.beforeBarrier?.();
        return await wait(succeeded);
      };
      const saver = new BackgroundSaver();
      const options = { ...save(5, held[rank]!), rank, worldSize: 2, barrier };
      return { saver, begin: () => saver.begin(options) };
    });
  }

  it('make one checkpoint', async () => {
    const both = ranks();
    await Promise.all(both.map(({ begin }) => begin()));
    const [first] = await Promise.all(both.map(({ saver }) => saver.finish()));
    await expectHolds(first!.path, 5);
  });

  it('both say so when one cannot copy, and leave nothing', async () => {
    const readInto = (): never => {
      throw new Error('no memory');
    };
    const both = ranks({ readInto });
    const begun = await Promise.allSettled(both.map(({ begin }) => begin()));
    expect(begun).toMatchObject([
      { status: 'rejected', reason: { code: 'MTL_CHECKPOINT_PEER' } },
      { status: 'rejected', reason: { message: 'no memory' } },
    ]);
    expect(both.map(({ saver }) => saver.isSaving)).toEqual([false, false]);
    expect(await readdir(temporary.path)).toEqual([]);
  });

  it('both say so when a thread cannot write, and leave nothing but what was there', async () => {
    const { path } = await saveCheckpoint(save(4));
    // a directory where the second rank's shard would be
    const inTheWay = join(temporary.path, 'iter_0000005.saving', 'shard-00001-000.safetensors');
    const both = ranks({ beforeBarrier: () => mkdir(inTheWay, { recursive: true }) });
    await Promise.all(both.map(({ begin }) => begin()));
    const finished = await Promise.allSettled(both.map(({ saver }) => saver.finish()));
    expect(finished).toMatchObject([
      { status: 'rejected', reason: { code: 'MTL_CHECKPOINT_PEER' } },
      { status: 'rejected', reason: { name: 'CheckpointError', code: 'MTL_CHECKPOINT_IO' } },
    ]);
    await expectHolds(path, 4);
    const again = ranks();
    await Promise.all(again.map(({ begin }) => begin()));
    const [first] = await Promise.all(again.map(({ saver }) => saver.finish()));
    await expectHolds(first!.path, 5);
  });
});
