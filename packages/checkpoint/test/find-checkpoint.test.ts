import { cp, mkdir, readdir, readFile, rename, rm, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import {
  Checkpoint,
  findCheckpoint,
  hostTensor,
  listCheckpoints,
  loadCheckpoint,
  saveCheckpoint,
} from '../src/index.js';
import { mutate } from './support/mutate.js';
import { Random } from './support/random.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const at = (...parts: string[]): string => join(temporary.path, ...parts);

function save(iteration: number, more: Partial<Parameters<typeof saveCheckpoint>[0]> = {}) {
  const tensors = stateOfIteration(iteration);
  return saveCheckpoint({ directory: temporary.path, iteration, tensors, state: { iteration }, ...more });
}

/** Returns the result, as an iteration or a reason, and the notices. */
async function find(step?: number): Promise<{ outcome: number | string; notices: string[] }> {
  const notices: string[] = [];
  const found = await findCheckpoint({
    directory: temporary.path,
    onNotice: (notice) => notices.push(notice.replaceAll(`${temporary.path}/`, '')),
    ...(step === undefined ? {} : { step }),
  });
  return { outcome: found.kind === 'found' ? found.checkpoint.iteration : found.reason, notices };
}

async function flipBit(path: string, position: number): Promise<void> {
  const bytes = await readFile(path);
  bytes[position] = bytes[position]! ^ 1;
  await writeFile(path, bytes);
}

const shard = 'shard-00000-000.safetensors';
const damages: Record<string, (path: string) => Promise<void>> = {
  'one flipped bit in a shard': (path) => flipBit(join(path, shard), 900),
  'one flipped bit in the header': (path) => flipBit(join(path, shard), 30),
  'a shard cut off': (path) => truncate(join(path, shard), 1000),
  'a shard missing': (path) => unlink(join(path, shard)),
  'a shard of another checkpoint': (path) => cp(at('iter_0000010', shard), join(path, shard)),
  'no manifest': (path) => unlink(join(path, 'manifest.json')),
  'half a manifest': (path) => truncate(join(path, 'manifest.json'), 300),
  'an edited manifest': async (path) => {
    const manifest = join(path, 'manifest.json');
    await writeFile(
      manifest,
      (await readFile(manifest, 'utf8')).replace('{"iteration":20}', '{"iteration":21}'),
    );
  },
  'the manifest of another': (path) => cp(at('iter_0000010', 'manifest.json'), join(path, 'manifest.json')),
  'no files at all': async (path) => {
    await rm(path, { recursive: true });
    await mkdir(path);
  },
};

describe('findCheckpoint', () => {
  it('tells an absent directory from an empty one', async () => {
    expect(await find()).toEqual({ outcome: 'no-checkpoints', notices: [] });
    await rm(temporary.path, { recursive: true });
    expect(await find()).toEqual({ outcome: 'no-directory', notices: [] });
    await expect(find(3)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_STEP' });
  });

  it('finds the newest, and says nothing when nothing is wrong', async () => {
    await save(10);
    await save(20);
    expect(await find()).toEqual({ outcome: 20, notices: [] });
  });

  it.each(Object.keys(damages))('falls back from a checkpoint with %s and says so', async (damage) => {
    await save(10);
    await save(20);
    await damages[damage]!(at('iter_0000020'));
    const { outcome, notices } = await find();
    expect(outcome).toBe(10);
    expect(notices).toHaveLength(2);
    expect(notices[0]).toMatch(/^skipped iter_0000020: /);
    expect(notices[1]).toBe(
      'latest_checkpointed_iteration.txt names 20, which cannot be used: using iter_0000010',
    );
    await expect(find(20)).rejects.toSatisfy((error) => MtlError.isInstance(error));
  });

  it('lists every defect when none is whole', async () => {
    await save(10);
    await save(20);
    await save(30);
    await flipBit(at('iter_0000010', shard), 900);
    await truncate(at('iter_0000020', shard), 1000);
    await unlink(at('iter_0000030', 'manifest.json'));
    const error: MtlError = await find().then(
      () => expect.fail('found one'),
      (reason: MtlError) => reason,
    );
    expect(error.code).toBe('MTL_CHECKPOINT_NONE_WHOLE');
    expect(error.message).toMatch(/iter_0000010.*CRC-32/);
    expect(error.message).toMatch(/iter_0000020.*not a valid safetensors file/);
    expect(error.message).toMatch(/iter_0000030.*no manifest\.json/);
  });

  it.each([
    ['mp_rank_00', 'it contains mp_rank_00, as checkpoints of Megatron-LM do; mtl convert'],
    ['mp_rank_01_003', 'it contains mp_rank_01_003, as'],
    ['__0_1.distcp', 'it contains __0_1.distcp, as'],
    ['model.pt', '@mtl/checkpoint did not write it'],
  ])('does not take a checkpoint of another program for one of ours: %s', async (name, message) => {
    await mkdir(at('iter_0000100', name), { recursive: true });
    await writeFile(at('latest_checkpointed_iteration.txt'), '100\n');
    await expect(find()).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_NONE_WHOLE',
      message: expect.stringContaining(message) as string,
    });
  });

  it('does not start afresh when the tracker names a checkpoint that is gone', async () => {
    await writeFile(at('latest_checkpointed_iteration.txt'), '40');
    await expect(find()).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_NONE_WHOLE' });
  });

  it('follows a tracker set back by hand, and a run that went on from there', async () => {
    for (const iteration of [10, 20, 30]) await save(iteration);
    await writeFile(at('latest_checkpointed_iteration.txt'), '10\n');
    const { outcome, notices } = await find();
    expect(outcome).toBe(10);
    expect(notices).toEqual([
      'using iter_0000010, which latest_checkpointed_iteration.txt names; iter_0000030 was saved later and is not used',
    ]);
    await save(15);
    expect(await find()).toEqual({ outcome: 15, notices: [] });
    // If it is torn, the checkpoint that was saved before it is chosen, not the one of the highest iteration.
    await save(16);
    await unlink(at('iter_0000016', shard));
    expect((await find()).outcome).toBe(15);
  });

  it.each(['', 'release', '-3', '99'])('uses the last saved when the tracker says %j', async (text) => {
    await save(10);
    await save(20);
    await writeFile(at('latest_checkpointed_iteration.txt'), text);
    const { outcome, notices } = await find();
    expect(outcome).toBe(20);
    expect(notices).toHaveLength(1);
  });

  it('names the directory to pass when it is given a checkpoint itself', async () => {
    const { path } = await save(10);
    await expect(findCheckpoint({ directory: path, onNotice: () => undefined })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_DIRECTORY',
      exitCode: 2,
      expected: temporary.path,
    });
  });

  it('gives the step that was asked for, or names those there are', async () => {
    await save(10);
    await save(20);
    expect(await find(10)).toEqual({ outcome: 10, notices: [] });
    await expect(find(15)).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_STEP',
      expected: 'one of 10, 20',
      exitCode: 2,
    });
  });

  it('asks for an update when a later version wrote the checkpoint', async () => {
    const { path } = await save(10);
    const manifest = join(path, 'manifest.json');
    await writeFile(
      manifest,
      (await readFile(manifest, 'utf8')).replace('"formatVersion":1', '"formatVersion":2'),
    );
    await expect(find(10)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_VERSION' });
  });

  it('accepts a manifest that an editor has reformatted', async () => {
    const { path } = await save(10);
    const manifest = join(path, 'manifest.json');
    await writeFile(manifest, JSON.stringify(JSON.parse(await readFile(manifest, 'utf8')), null, 4));
    expect((await find()).outcome).toBe(10);
  });

  it('never takes damaged files for whole ones, 300 mutations', async () => {
    const { path } = await save(10, { maxShardBytes: 600 });
    const names = (await readdir(path)).filter(
      (name) => name.startsWith('shard') || name === 'manifest.json',
    );
    const originals = new Map<string, Uint8Array>();
    for (const name of names) originals.set(name, await readFile(join(path, name)));
    const random = new Random(99);
    let refused = 0;
    for (let round = 0; round < 300; round++) {
      const name = random.pick(names);
      await writeFile(join(path, name), mutate(originals.get(name)!, random));
      try {
        const found = await findCheckpoint({ directory: temporary.path, onNotice: () => undefined });
        if (found.kind !== 'found') expect.fail(`round ${round}: nothing found`);
        // Only a change that means nothing (a byte overwritten with itself) may pass.
        const target = stateOfIteration(0, { zero: true });
        await loadCheckpoint({ checkpoint: found.checkpoint, tensors: target });
        for (const [index, tensor] of stateOfIteration(10).entries()) {
          expect(target[index]!.memory, `round ${round}`).toEqual(tensor.memory);
        }
        expect(found.checkpoint.state, `round ${round}`).toEqual({ iteration: 10 });
      } catch (error) {
        expect((error as MtlError).code, `round ${round}: ${String(error)}`).toBe(
          'MTL_CHECKPOINT_NONE_WHOLE',
        );
        refused++;
      }
      await writeFile(join(path, name), originals.get(name)!);
    }
    expect(refused).toBeGreaterThan(200);
  });
});

describe('loadCheckpoint', () => {
  it('refuses what does not fit, with the nearest names, before it writes anything', async () => {
    const { path } = await save(10);
    const checkpoint = await Checkpoint.open(path);
    const [weight, bias, moment] = stateOfIteration(0, { zero: true });
    const tensors = [{ ...weight!, name: 'model.wieght' }, { ...bias!, dtype: 'F16' as const }, moment!];
    const error: MtlError = await loadCheckpoint({ checkpoint, tensors }).then(
      () => expect.fail('loaded'),
      (reason: MtlError) => reason,
    );
    expect(error.code).toBe('MTL_CHECKPOINT_MISMATCH');
    expect(error.message).toContain('model.wieght (the nearest stored name is model.weight)');
    expect(error.message).toContain('model.weight (the nearest missing name is model.wieght)');
    expect(error.message).toContain('model.bias is BF16 [16], wanted F16 [16]');
    expect(tensors.every(({ memory }) => memory!.every((byte) => byte === 0))).toBe(true);
  });

  it('leaves alone the tensors that `ignore` selects, and only those', async () => {
    const { path } = await save(10);
    const checkpoint = await Checkpoint.open(path);
    const model = stateOfIteration(0, { zero: true }).filter(({ name }) => name.startsWith('model.'));
    await expect(loadCheckpoint({ checkpoint, tensors: model })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_MISMATCH',
      details: { unexpected: ['optimizer.weight'] },
    });
    await loadCheckpoint({ checkpoint, tensors: model, ignore: (name) => name.startsWith('optimizer.') });
    expect(model[0]!.memory).toEqual(stateOfIteration(10)[0]!.memory);
  });

  it('refuses to fill memory of another size than the tensor', async () => {
    const { path } = await save(10);
    const [first, ...rest] = stateOfIteration(0, { zero: true });
    const tensors = [hostTensor({ ...first!, memory: new Uint8Array(508) }), ...rest];
    await expect(loadCheckpoint({ checkpoint: await Checkpoint.open(path), tensors })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_TENSOR',
      message: expect.stringContaining('its memory has 508 bytes') as string,
      expected: '512 for its slices',
    });
  });

  it('needs memory for the largest tensor, not for all', async () => {
    // Twelve tensors of 4 MB without memory of their own: a 48 MB state through one buffer.
    const bytes = new Uint8Array(4_000_000);
    const tensors = Array.from({ length: 12 }, (_, index) => ({
      name: `t${index}`,
      dtype: 'U8' as const,
      globalShape: [bytes.length],
      slices: [{ start: 0, end: bytes.length }],
      read: () => bytes.fill(index + 1),
      write: (loaded: Uint8Array) => {
        buffers.add(loaded.buffer);
        expect(loaded.every((byte) => byte === index + 1)).toBe(true);
      },
    }));
    const buffers = new Set<unknown>();
    const { path } = await save(10, { tensors });
    await loadCheckpoint({ checkpoint: await Checkpoint.open(path), tensors });
    expect(buffers.size).toBe(1);
  });

  it('checks what it reads, unless it was found and checked before', async () => {
    const { path } = await save(10);
    const found = await findCheckpoint({ directory: temporary.path, onNotice: () => undefined });
    await flipBit(join(path, shard), 900);
    const tensors = stateOfIteration(0, { zero: true });
    await expect(loadCheckpoint({ checkpoint: await Checkpoint.open(path), tensors })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_CORRUPT',
    });
    if (found.kind !== 'found') expect.fail('not found');
    await expect(
      loadCheckpoint({ checkpoint: found.checkpoint, tensors, verify: true }),
    ).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_CORRUPT' });
    await loadCheckpoint({ checkpoint: found.checkpoint, tensors });
  });
});

describe('keepLast and leftovers', () => {
  it('keeps the last saved, also when their iterations are lower', async () => {
    for (const iteration of [10, 20, 30]) await save(iteration);
    const { deleted } = await save(15, { keepLast: 2 });
    expect(deleted).toEqual([20, 10]);
    expect(await readdir(temporary.path)).toEqual([
      'iter_0000015',
      'iter_0000030',
      'latest_checkpointed_iteration.txt',
    ]);
  });

  it('does not count torn checkpoints, and never touches what is not ours', async () => {
    for (const iteration of [10, 20, 30]) await save(iteration);
    await truncate(at('iter_0000030', shard), 10);
    await mkdir(at('iter_0000005'));
    await writeFile(at('iter_0000005', 'model_optim_rng.pt'), 'x');
    await mkdir(at('notes'));
    const { deleted } = await save(40, { keepLast: 2 });
    expect(deleted).toEqual([10]);
    expect(await readdir(temporary.path)).toContain('iter_0000005');
    expect((await find()).outcome).toBe(40);
    expect(
      (await findCheckpoint({ directory: temporary.path, step: 20, onNotice: () => undefined })).kind,
    ).toBe('found');
  });

  it('the next save removes what killed ones left, and puts back what they had moved aside', async () => {
    await save(10);
    await save(20);
    // A save of 30 that was killed while writing; one of 20 killed between its two renames; a deletion cut
    // short.
    await cp(at('iter_0000010'), at('iter_0000030.saving'), { recursive: true });
    const owner = JSON.parse(await readFile(at('iter_0000010', 'saved_by.json'), 'utf8'));
    await writeFile(
      at('iter_0000030.saving', 'saved_by.json'),
      JSON.stringify({ ...owner, pid: 2 ** 22 + 1 }),
    );
    await rename(at('iter_0000020'), at('iter_0000020.replaced'));
    await mkdir(at('iter_0000001.deleting'));
    await writeFile(at('latest_checkpointed_iteration.txt.saving'), '30');
    expect((await find()).outcome).toBe(20);
    await save(40);
    expect(await readdir(temporary.path)).toEqual([
      'iter_0000010',
      'iter_0000020',
      'iter_0000040',
      'latest_checkpointed_iteration.txt',
    ]);
    expect(await find(20)).toEqual({ outcome: 20, notices: [] });
  });

  it('leaves alone what a living process is saving', async () => {
    await save(10);
    await cp(at('iter_0000010'), at('iter_0000020.saving'), { recursive: true });
    const owner = JSON.parse(await readFile(at('iter_0000010', 'saved_by.json'), 'utf8'));
    // The parent of this test's process lives as long as the test.
    const stat = await readFile(`/proc/${process.ppid}/stat`, 'utf8').catch(() => '');
    const processStart = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
    const living = JSON.stringify({ ...owner, token: 'other', pid: process.ppid, processStart });
    await writeFile(at('iter_0000020.saving', 'saved_by.json'), living);
    await save(30, { keepLast: 1 });
    expect(await readdir(temporary.path)).toEqual([
      'iter_0000020.saving',
      'iter_0000030',
      'latest_checkpointed_iteration.txt',
    ]);
    await expect(save(20)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_BUSY' });
    expect(await readdir(at('iter_0000020.saving'))).toContain(shard);
    // A process of another machine cannot be asked; while its files are young it counts as alive.
    await writeFile(
      at('iter_0000020.saving', 'saved_by.json'),
      JSON.stringify({ ...owner, system: 'elsewhere' }),
    );
    await save(40);
    expect(await readdir(temporary.path)).toContain('iter_0000020.saving');
    // A run that saves the same iteration is the successor of a run that ended elsewhere.
    await save(20);
    expect(await readdir(temporary.path)).not.toContain('iter_0000020.saving');
  });

  it('lists what is there, last saved first', async () => {
    await save(30);
    await save(10);
    await mkdir(at('iter_0000040'));
    const listing = await listCheckpoints(temporary.path);
    expect(listing?.checkpoints.map(({ iteration }) => iteration)).toEqual([10, 30]);
    expect(listing?.skipped.map(({ iteration }) => iteration)).toEqual([40]);
  });
});
