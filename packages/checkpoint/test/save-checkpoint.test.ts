import { spawnSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  Checkpoint,
  findCheckpoint,
  type HostTensor,
  hostTensor,
  type LogicalTensor,
  loadCheckpoint,
  SafetensorsDirectory,
  saveCheckpoint,
} from '../src/index.js';
import { directorySnapshot } from './support/directory-snapshot.js';
import { failingFileSystem, recordingFileSystem } from './support/file-systems.js';
import { inProcessBarriers } from './support/in-process-barriers.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();

function save(iteration: number, more: Partial<Parameters<typeof saveCheckpoint>[0]> = {}) {
  const state = { iteration, consumedSamples: iteration * 8 };
  return saveCheckpoint({
    directory: temporary.path,
    iteration,
    tensors: stateOfIteration(iteration),
    state,
    ...more,
  });
}

async function expectLoads(iteration: number): Promise<void> {
  const checkpoint = await Checkpoint.open(
    join(temporary.path, `iter_${String(iteration).padStart(7, '0')}`),
  );
  const target = stateOfIteration(0, { zero: true });
  await loadCheckpoint({ checkpoint, tensors: target });
  for (const [index, tensor] of stateOfIteration(iteration).entries()) {
    expect(target[index]!.memory).toEqual(tensor.memory);
  }
  expect(checkpoint.state.iteration).toBe(iteration);
}

describe('a saved checkpoint', () => {
  it('is a directory as Megatron names it, with the tracker next to it', async () => {
    const result = await save(123);
    expect(result.path).toBe(join(temporary.path, 'iter_0000123'));
    expect(await readdir(temporary.path)).toEqual(['iter_0000123', 'latest_checkpointed_iteration.txt']);
    expect(await readFile(join(temporary.path, 'latest_checkpointed_iteration.txt'), 'utf8')).toBe('123');
    expect((await readdir(result.path)).sort()).toEqual([
      'manifest.json',
      'model.safetensors.index.json',
      'saved_by.json',
      'shard-00000-000.safetensors',
    ]);
    const file = await stat(join(result.path, 'shard-00000-000.safetensors'));
    expect(result.bytes).toBe(file.size);
    await expectLoads(123);
  });

  it('is the same where tensors are copied into one buffer', async () => {
    const read = (): never => {
      throw new Error('read where readInto is there');
    };
    const whole = await save(1);
    const expected = await readFile(join(whole.path, 'shard-00000-000.safetensors'));
    const targets = new Set<ArrayBufferLike>();
    const tensors = stateOfIteration(1).map(({ memory, ...tensor }) => ({
      ...tensor,
      read,
      readInto: (target: Uint8Array) => {
        targets.add(target.buffer);
        target.set(memory!);
      },
    }));
    const { path } = await save(2, { tensors });
    expect(await readFile(join(path, 'shard-00000-000.safetensors'))).toEqual(expected);
    expect(targets.size).toBe(1);
  });

  it('keeps the state, the version and the table', async () => {
    const state = {
      iteration: 7,
      lossScale: 65536,
      rng: { seed: '12345678901234567890' },
      list: [1, null, 'é', 0.1],
    };
    const { path } = await save(7, { state });
    const { manifest } = await Checkpoint.open(path);
    expect(manifest.state).toEqual(state);
    expect(manifest.libraryVersion).toMatch(/^\d+\.\d+\.\d+/);
    expect(manifest.tensors.map(({ name, dtype, globalShape }) => [name, dtype, globalShape])).toEqual([
      ['model.weight', 'F32', [16, 8]],
      ['optimizer.weight', 'F32', [16, 8]],
      ['model.bias', 'BF16', [16]],
    ]);
  });

  it('can be read as a Hugging Face directory when no tensor is sharded', async () => {
    const { path } = await save(3, { maxShardBytes: 600 });
    await using sharded = await SafetensorsDirectory.open(path);
    for (const tensor of stateOfIteration(3)) {
      expect(await sharded.read({ name: tensor.name })).toEqual(tensor.memory);
    }
  });

  it('is on the disk, files and directory, before it is published', async () => {
    const { fileSystem, log } = recordingFileSystem();
    await save(123, { fileSystem, maxShardBytes: 600 });
    const published = log.indexOf('rename iter_0000123.saving iter_0000123');
    const written = new Set(
      log.filter((line) => line.startsWith('write ')).map((line) => line.split(' ')[1]!),
    );
    expect([...written]).toContain('shard-00000-001.safetensors');
    for (const name of written) {
      const durable = log.lastIndexOf(`sync ${name}`);
      expect(durable, name).toBeGreaterThan(log.lastIndexOf(`write ${name}`));
      expect(durable, name).toBeLessThan(published);
    }
    // The directory's own names last, then the rename itself.
    expect(log.indexOf('sync iter_0000123.saving')).toBeGreaterThan(log.lastIndexOf('sync manifest.json'));
    expect(log.indexOf('sync iter_0000123.saving')).toBeLessThan(published);
    expect(log.slice(published + 1)).toEqual([
      `sync ${basename(temporary.path)}`,
      'rename latest_checkpointed_iteration.txt.saving latest_checkpointed_iteration.txt',
      `sync ${basename(temporary.path)}`,
    ]);
  });

  it('replaces one of the same iteration', async () => {
    await save(5, { tensors: stateOfIteration(99) });
    await save(5);
    expect(await readdir(temporary.path)).toEqual(['iter_0000005', 'latest_checkpointed_iteration.txt']);
    await expectLoads(5);
  });

  it.each([
    [{ loss: Number.NaN }, 'state.loss is NaN'],
    [{ a: { b: [1, undefined] } }, 'state.a.b[1] is a undefined'],
    [{ big: 1n }, 'state.big is a bigint'],
    [{ bytes: new Uint8Array(2) }, 'state.bytes is a Uint8Array'],
    [{ when: new Date() }, 'state.when is a Date'],
  ])('refuses state that JSON would change (%#)', async (state, problem) => {
    await expect(save(1, { state: state as never })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_STATE',
      message: expect.stringContaining(problem) as string,
    });
    expect(await readdir(temporary.path)).toEqual([]);
  });

  it.each<[string, Partial<LogicalTensor>, string]>([
    ['dtype', { dtype: 'F33' as 'F32' }, 'MTL_CHECKPOINT_TENSOR'],
    [
      'slices',
      {
        slices: [
          { start: 0, end: 17 },
          { start: 0, end: 8 },
        ],
      },
      'MTL_CHECKPOINT_TENSOR',
    ],
    [
      'gap',
      {
        slices: [
          { start: 0, end: 15 },
          { start: 0, end: 8 },
        ],
        read: () => new Uint8Array(480),
      },
      'MTL_CHECKPOINT_COVER',
    ],
    ['bytes', { read: () => new Uint8Array(5) }, 'MTL_SAFETENSORS_ORDER'],
  ])('refuses a tensor with a wrong %s and leaves nothing behind', async (_, change, code) => {
    const [first, ...rest] = stateOfIteration(1);
    await expect(save(1, { tensors: [{ ...first!, ...change }, ...rest] })).rejects.toMatchObject({ code });
    expect(await readdir(temporary.path)).toEqual([]);
  });

  it('refuses options that cannot work', async () => {
    for (const options of [
      { keepLast: 0 },
      { iteration: -1 },
      { worldSize: 2 },
      { rank: 1 },
      { maxShardBytes: 0 },
    ]) {
      await expect(save(1, options)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_OPTIONS' });
    }
  });
});

describe('many ranks', () => {
  /** Returns the tensors of a rank: some rows of one tensor, and a copy of another. */
  function tensorsOfRank(rank: number, worldSize: number): HostTensor[] {
    const rows = 12 / worldSize;
    const memory = Uint8Array.from({ length: rows * 4 }, (_, index) => rank * rows * 4 + index);
    return [
      hostTensor({
        name: 'sharded',
        dtype: 'F32',
        globalShape: [12],
        slices: [{ start: rank * rows, end: (rank + 1) * rows }],
        memory,
      }),
      hostTensor({
        name: 'copied',
        dtype: 'U8',
        globalShape: [3],
        replica: rank,
        memory: Uint8Array.of(7, 8, 9),
      }),
    ];
  }

  function saveAll(
    worldSize: number,
    change: (rank: number) => Partial<Parameters<typeof saveCheckpoint>[0]> = () => ({}),
  ) {
    return Promise.allSettled(
      inProcessBarriers(worldSize).map((barrier, rank) =>
        save(1, { tensors: tensorsOfRank(rank, worldSize), rank, worldSize, barrier, ...change(rank) }),
      ),
    );
  }

  it('save into one checkpoint, each into its own shard', async () => {
    const results = await saveAll(4);
    expect(results.map(({ status }) => status)).toEqual(Array(4).fill('fulfilled'));
    const path = join(temporary.path, 'iter_0000001');
    expect((await readdir(path)).filter((name) => name.startsWith('shard'))).toHaveLength(4);
    const [sharded, copied] = tensorsOfRank(0, 1);
    const target = [
      hostTensor({ ...sharded!, memory: new Uint8Array(48) }),
      hostTensor({ ...copied!, memory: new Uint8Array(3) }),
    ];
    await loadCheckpoint({ checkpoint: await Checkpoint.open(path), tensors: target });
    expect(target[0]!.memory).toEqual(sharded!.memory);
    expect(target[1]!.memory).toEqual(copied!.memory);
  });

  it('all fail when one fails, and leave nothing behind', async () => {
    await save(0);
    const before = await directorySnapshot(temporary.path);
    const full = failingFileSystem({ failAt: 2, code: 'ENOSPC' });
    const results = await saveAll(3, (rank) => (rank === 2 ? { fileSystem: full.fileSystem } : {}));
    const codes = results.map((result) => (result.status === 'rejected' ? result.reason.code : 'saved'));
    expect(codes).toEqual(['MTL_CHECKPOINT_PEER', 'MTL_CHECKPOINT_PEER', 'MTL_CHECKPOINT_DISK_FULL']);
    expect(await directorySnapshot(temporary.path)).toEqual(before);
  });

  it('are told when they overlap or save into different places', async () => {
    const overlap = await saveAll(2, (rank) => ({
      tensors: tensorsOfRank(rank, 2).map((t) => ({ ...t, replica: 0 })),
    }));
    expect(overlap[0]).toMatchObject({ reason: { code: 'MTL_CHECKPOINT_COVER' } });
    expect(overlap[1]).toMatchObject({ reason: { code: 'MTL_CHECKPOINT_PEER' } });
    const apart = await saveAll(2, (rank) =>
      rank === 1 ? { directory: join(temporary.path, 'elsewhere') } : {},
    );
    expect(apart[1]).toMatchObject({ reason: { code: 'MTL_CHECKPOINT_NOT_SHARED' } });
    expect(await readdir(temporary.path)).toEqual([]);
  });
});

/** The user id that owns nothing. */
const unprivilegedUser = 65_534;

describe('a save that fails', () => {
  it('at any operation leaves the earlier checkpoints as they were and no litter', async () => {
    await save(1);
    await save(2);
    const before = await directorySnapshot(temporary.path);
    const dry = failingFileSystem({ failAt: -1, code: 'ENOSPC' });
    await save(3, { fileSystem: dry.fileSystem });
    await rm(join(temporary.path, 'iter_0000003'), { recursive: true });
    await writeFile(join(temporary.path, 'latest_checkpointed_iteration.txt'), '2');
    expect(dry.operations()).toBeGreaterThan(15);
    const published: string[] = [];
    const failedWrites: string[] = [];
    for (const [code, coded] of [
      ['ENOSPC', 'MTL_CHECKPOINT_DISK_FULL'],
      ['EACCES', 'MTL_CHECKPOINT_DENIED'],
      ['EIO', 'MTL_CHECKPOINT_IO'],
    ] as const) {
      for (let failAt = 0; failAt < dry.operations(); failAt++) {
        const failing = failingFileSystem({ failAt, code, sticky: code === 'ENOSPC' });
        const error = await save(3, { fileSystem: failing.fileSystem }).catch((cause: unknown) => cause);
        expect(error, `${code} at ${failAt}`).toMatchObject({ code: coded });
        const { message } = error as Error;
        if (failing.failed()?.startsWith('write') === true) failedWrites.push(message);
        const after = await directorySnapshot(temporary.path);
        if (after.iter_0000003 !== undefined) {
          // After the rename the new checkpoint is complete; only the sync or the update of the tracker
          // failed.
          published.push(failing.failed()!);
          await expectLoads(3);
          await rm(join(temporary.path, 'iter_0000003'), { recursive: true });
          await writeFile(join(temporary.path, 'latest_checkpointed_iteration.txt'), '2');
          expect(await directorySnapshot(temporary.path)).toEqual(before);
        } else expect(after, `${code} at ${failAt}, ${failing.failed()}`).toEqual(before);
      }
    }
    // the file, not only the directory
    expect(failedWrites.length).toBeGreaterThan(15);
    for (const message of failedWrites) {
      expect(message).toMatch(/^cannot (write|create) \S+\.(json|safetensors|txt\.saving): /);
    }
    // Per code: sync of the directory, rename of the tracker, sync of the directory.
    expect(published).toEqual(Array(3).fill(['sync', 'rename', 'sync']).flat());
  });

  it('while replacing the same iteration puts the old one back', async () => {
    await save(2);
    const before = await directorySnapshot(temporary.path);
    const dry = failingFileSystem({ failAt: -1, code: 'EIO' });
    await save(2, { fileSystem: dry.fileSystem });
    await rm(temporary.path, { recursive: true });
    await save(2);
    const original = await directorySnapshot(temporary.path);
    expect(Object.keys(original)).toEqual(Object.keys(before));
    for (let failAt = 0; failAt < dry.operations() - 3; failAt++) {
      const { fileSystem } = failingFileSystem({ failAt, code: 'EIO' });
      await expect(save(2, { fileSystem, tensors: stateOfIteration(77) })).rejects.toMatchObject({
        code: 'MTL_CHECKPOINT_IO',
      });
      expect(await directorySnapshot(temporary.path), `at ${failAt}`).toEqual(original);
    }
  });

  it('on a disk that is really full says so', async ({ skip }) => {
    const disk = join(temporary.path, 'disk');
    await mkdir(disk);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk]).status === 0;
    if (!mounted) skip('mounting a tmpfs needs root (injected failures are tested above)');
    try {
      await save(1, { directory: disk });
      const before = await directorySnapshot(disk);
      const memory = new Uint8Array(512 * 1024);
      const large = hostTensor({ name: 'large', dtype: 'U8', globalShape: [memory.length], memory });
      await expect(save(2, { directory: disk, tensors: [large] })).rejects.toMatchObject({
        code: 'MTL_CHECKPOINT_DISK_FULL',
        remedy: expect.stringContaining('free space') as string,
      });
      expect(await directorySnapshot(disk)).toEqual(before);
      const found = await findCheckpoint({ directory: disk, onNotice: () => undefined });
      expect(found).toMatchObject({ kind: 'found', checkpoint: { iteration: 1 } });
    } finally {
      spawnSync('umount', [disk]);
    }
  });

  it('in a directory that cannot be made names it', async () => {
    const file = join(temporary.path, 'file');
    await writeFile(file, '');
    await expect(save(1, { directory: join(file, 'below') })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_DENIED',
    });
  });

  it('in a directory that cannot be written names it', async () => {
    const locked = join(temporary.path, 'locked');
    await mkdir(locked);
    await chmod(locked, 0o555);
    await chmod(temporary.path, 0o755);
    // root may write everywhere, so the process runs as another user for a moment
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid!(unprivilegedUser);
    try {
      await expect(save(1, { directory: locked })).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_DENIED' });
    } finally {
      if (isRoot) process.seteuid!(0);
    }
  });
});
