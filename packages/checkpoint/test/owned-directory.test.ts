import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  checkLiveness,
  newSaveOwner,
  parseSaveOwner,
  type SaveOwner,
} from '../src/checkpoints/save-owner.js';
import { Checkpoint, OwnedDirectory, runOfCheckpoint, saveCheckpoint } from '../src/index.js';
import { jobOfCheckpoint } from '../src/internal/index.js';
import { bundle } from './support/bundle.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const local = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const owned: OwnedDirectory[] = [];
const children: ChildProcess[] = [];
let program: string;

beforeAll(async () => {
  program = await mkdtemp(join(tmpdir(), 'mtl-checkpoint-own-'));
  await cp(local('../package.json'), join(program, 'package.json'));
  await bundle({ entry: local('./support/own-and-wait.ts'), outDir: join(program, 'dist') });
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const one of owned.splice(0)) await one.release();
});
afterAll(() => rm(program, { recursive: true, force: true }));

async function own(options: Partial<Parameters<typeof OwnedDirectory.own>[0]> = {}): Promise<OwnedDirectory> {
  const one = await OwnedDirectory.own({ directory: temporary.path, ...options });
  owned.push(one);
  return one;
}

function save(iteration: number, more: Partial<Parameters<typeof saveCheckpoint>[0]> = {}) {
  const tensors = stateOfIteration(iteration);
  return saveCheckpoint({ directory: temporary.path, iteration, tensors, state: {}, ...more });
}

/** Starts a process that tries to own the directory; returns the process and its first line of output. */
async function startOwner(): Promise<{ readonly child: ChildProcess; readonly line: string }> {
  const child = spawn(process.execPath, [join(program, 'dist', 'own-and-wait.js'), temporary.path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return { child, line };
}

const records = async (): Promise<string[]> =>
  (await readdir(temporary.path)).filter((name) => name.startsWith('run_owner'));

const iterations = async (): Promise<number[]> =>
  (await readdir(temporary.path)).flatMap((name) =>
    name.startsWith('iter_') ? [Number(name.slice(5))] : [],
  );

/** Changes the record as if another machine had written it, `ageMs` ago. */
async function recordedElsewhere(change: object, ageMs: number): Promise<void> {
  const [name] = await records();
  const path = join(temporary.path, name!, 'owner.json');
  const record = JSON.parse(await readFile(path, 'utf8')) as SaveOwner;
  const elsewhere = { ...record, token: 'of-another', system: 'other-host', host: 'other-host', ...change };
  await writeFile(path, JSON.stringify(elsewhere));
  const then = new Date(Date.now() - ageMs);
  await utimes(path, then, then);
}

const isOwned = { code: 'MTL_CHECKPOINT_OWNED', exitCode: 2 };

describe('two processes and one directory', () => {
  it('the second is refused and writes nothing; after a kill of the first it owns the directory', async () => {
    const first = await startOwner();
    expect(first.line).toBe('owned');
    const before = await readdir(temporary.path);
    expect((await startOwner()).line).toBe('MTL_CHECKPOINT_OWNED');
    await expect(own()).rejects.toMatchObject({
      ...isOwned,
      message: expect.stringContaining(`process ${first.child.pid}`),
      remedy: expect.stringContaining('another directory'),
    });
    await expect(save(1)).rejects.toMatchObject(isOwned);
    expect(await readdir(temporary.path)).toEqual(before);

    first.child.kill('SIGKILL');
    await once(first.child, 'exit');
    await own();
    expect(await records()).toEqual(['run_owner.2']);
    expect((await startOwner()).line).toBe('MTL_CHECKPOINT_OWNED');
  });

  it('of many that start together one owns the directory', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => own()));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(isOwned);
    expect(await records()).toHaveLength(1);
  });

  it('is free again after a release, without a trace', async () => {
    await (await own()).release();
    expect(await readdir(temporary.path)).toEqual([]);
    await own();
  });

  it('a process that ended and was not waited for is dead', async () => {
    // exec keeps the child of the shell, which sleep never waits for; the shell itself would have
    const parent = spawn('/bin/sh', ['-c', 'cat <&3 > /dev/null & echo $!; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
    });
    children.push(parent);
    const [line] = (await once(createInterface({ input: parent.stdout! }), 'line')) as [string];
    const command = () => readFile(`/proc/${parent.pid}/comm`, 'utf8');
    await expect.poll(command).toBe('sleep\n');
    (parent.stdio[3] as Writable).end();
    const state = async (): Promise<string | undefined> =>
      (await readFile(`/proc/${line}/stat`, 'utf8')).split(') ')[1];
    await expect.poll(state).toMatch(/^Z/);
    const processStart = (await state())!.split(' ')[19]!;
    expect(checkLiveness({ ...newSaveOwner(), pid: Number(line), processStart })).toBe('dead');
  });
});

describe('an owner on another machine', () => {
  it('is found without writing: by its process here, elsewhere by its signs of life', async () => {
    const owns = () => OwnedDirectory.isOwned(temporary.path);
    expect(await owns()).toBe(false);
    const mine = await own();
    expect(await owns()).toBe(true);
    await recordedElsewhere({}, 60_000);
    const before = await stat(temporary.path);
    expect(await owns()).toBe(true);
    expect((await stat(temporary.path)).mtimeMs).toBe(before.mtimeMs);
    await recordedElsewhere({}, 6 * 60_000);
    expect(await owns()).toBe(false);
    for (const name of await records()) await rm(join(temporary.path, name), { recursive: true });
    await mine.release();
    expect(await OwnedDirectory.isOwned(join(temporary.path, 'nothing'))).toBe(false);
  });

  it('is refused while it shows signs of life, and how long to wait is said', async () => {
    await own();
    await recordedElsewhere({}, 90_000);
    await expect(own()).rejects.toMatchObject({
      ...isOwned,
      message: expect.stringContaining('other-host'),
      remedy: expect.stringMatching(/wait 4 minutes or delete .*run_owner\.1/),
    });
    expect(await records()).toEqual(['run_owner.1']);
  });

  it('is replaced, with a notice, when it was silent for longer than five minutes', async () => {
    const notices: string[] = [];
    await own();
    await recordedElsewhere({}, 6 * 60_000);
    await own({ onNotice: (notice) => notices.push(notice) });
    expect(notices).toEqual([expect.stringMatching(/silent for 6 minutes: taken over/)]);
    expect(await records()).toEqual(['run_owner.2']);
  });

  it('is succeeded at once by a later attempt of its job, and by no other', async () => {
    await own({ job: 'a job', restartCount: 1 });
    await recordedElsewhere({}, 0);
    for (const attempt of [{ job: 'a job', restartCount: 1 }, { job: 'other', restartCount: 2 }, {}])
      await expect(own(attempt)).rejects.toMatchObject(isOwned);
    await own({ job: 'a job', restartCount: 2 });
  });

  it('that cannot be read counts as one', async () => {
    await mkdir(join(temporary.path, 'run_owner.7'));
    await writeFile(join(temporary.path, 'run_owner.7', 'owner.json'), '');
    await expect(own()).rejects.toMatchObject(isOwned);
  });
});

describe('an owner', () => {
  it('shows a sign of life every 15 seconds', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      await own();
      const path = join(temporary.path, 'run_owner.1', 'owner.json');
      const text = await readFile(path, 'utf8');
      await utimes(path, new Date(0), new Date(0));
      vi.advanceTimersByTime(15_000);
      await expect.poll(async () => (await stat(path)).mtimeMs).toBeGreaterThan(0);
      expect(await readFile(path, 'utf8')).toBe(text);
    } finally {
      vi.useRealTimers();
    }
  });

  it('that was replaced publishes nothing and leaves the directory of the other alone', async () => {
    const late = await own();
    await save(1, { owned: late });
    await rm(join(temporary.path, 'run_owner.1'), { recursive: true });
    const other = await own();
    await expect(save(2, { owned: late })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_OWNED',
      exitCode: 1,
      message: expect.stringContaining('lost its save directory'),
    });
    await save(2, { owned: other });
    expect(await jobOfCheckpoint(join(temporary.path, 'iter_0000002'))).toBe(other.job);
  });

  it('that is replaced while it writes does not publish', async () => {
    const late = await own();
    const tensors = stateOfIteration(3);
    const [first, ...rest] = tensors;
    const read = async (): Promise<Uint8Array> => {
      // another run replaces its record before it has written everything
      await rename(join(temporary.path, 'run_owner.1'), join(temporary.path, 'gone'));
      await rm(join(temporary.path, 'gone'), { recursive: true });
      await own();
      return first!.memory as Uint8Array;
    };
    const { readInto: _readInto, ...slow } = first!;
    await expect(save(3, { owned: late, tensors: [{ ...slow, read }, ...rest] })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_OWNED',
    });
    expect(existsSync(join(temporary.path, 'iter_0000003'))).toBe(false);
  });

  it('writes a record again that was deleted', async () => {
    const one = await own();
    await rm(temporary.path, { recursive: true });
    await save(1, { owned: one });
    expect(await records()).toEqual(['run_owner.1']);
    await expect(own()).rejects.toMatchObject(isOwned);
  });
});

describe('keepLast of an owner', () => {
  it('deletes only what its own job saved', async () => {
    for (const iteration of [100, 200]) await save(iteration);
    const before = await own({ job: 'before' });
    await save(300, { owned: before });
    await before.release();
    const one = await own({ job: 'mine' });
    await save(1, { owned: one, keepLast: 1 });
    const { deleted } = await save(2, { owned: one, keepLast: 1 });
    expect(deleted).toEqual([1]);
    await one.release();
    const again = await own({ job: 'mine', restartCount: 1 });
    expect((await save(3, { owned: again, keepLast: 1 })).deleted).toEqual([2]);
    const left = (await readdir(temporary.path)).filter((name) => name.startsWith('iter_'));
    expect(left).toEqual(['iter_0000003', 'iter_0000100', 'iter_0000200', 'iter_0000300']);
  });

  it('counts what earlier jobs of the same run saved, and leaves the checkpoint that was loaded', async () => {
    await save(5);
    const other = await own({ job: 'other' });
    await save(7, { owned: other });
    await other.release();
    const first = await own();
    await save(10, { owned: first });
    const run = await runOfCheckpoint(await Checkpoint.open(join(temporary.path, 'iter_0000010')));
    expect(run).toBe(first.job);
    await first.release();
    let loaded = 10;
    for (let start = 0; start < 4; start++) {
      const loadedFrom = join(temporary.path, `iter_00000${loaded}`);
      const owned = await own();
      for (const iteration of [loaded + 1, loaded + 2, loaded + 3])
        await save(iteration, { owned, run, loadedFrom, keepLast: 2 });
      await owned.release();
      expect(await iterations()).toEqual([5, 7, loaded, loaded + 2, loaded + 3]);
      loaded += 3;
    }
    await expect(Checkpoint.open(join(temporary.path, 'iter_0000005'))).resolves.toMatchObject({
      manifest: expect.not.objectContaining({ run: expect.anything() }),
    });
  });

  it('counts checkpoints of versions that named the job alone', async () => {
    const older = await own({ job: 'older' });
    for (const iteration of [1, 2, 3]) {
      const { path } = await save(iteration, { owned: older });
      const file = join(path, 'manifest.json');
      const { sha256: _, content, ...format } = JSON.parse(await readFile(file, 'utf8'));
      delete content.run;
      const sha256 = createHash('sha256').update(JSON.stringify(content)).digest('hex');
      await writeFile(file, JSON.stringify({ ...format, sha256, content }));
    }
    await older.release();
    const run = await runOfCheckpoint(await Checkpoint.open(join(temporary.path, 'iter_0000003')));
    expect(run).toBe('older');
    const owned = await own();
    expect((await save(4, { owned, run, keepLast: 2 })).deleted).toEqual([2, 1]);
  });

  it('goes by the record in each checkpoint', async () => {
    const one = await own({ job: 'a job' });
    const { path } = await save(1, { owned: one });
    const text = await readFile(join(path, 'saved_by.json'), 'utf8');
    expect(parseSaveOwner(text)).toMatchObject({ job: 'a job', pid: process.pid });
    expect(await jobOfCheckpoint((await Checkpoint.open(path)).path)).toBe('a job');
  });
});
