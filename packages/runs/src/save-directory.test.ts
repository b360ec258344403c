import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { saveCheckpoint } from '@mtl/checkpoint';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TrainingProcesses } from './parts/ranks/training-processes.js';
import { SaveDirectory, type SaveDirectoryOptions } from './save-directory.js';

let directory: string;
const made: SaveDirectory[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-save-directory-'));
});
afterEach(async () => {
  for (const one of made.splice(0)) await one.release();
  rmSync(directory, { recursive: true, force: true });
});

const alone = new TrainingProcesses({
  world: undefined,
  parallel: { tensorModelParallelSize: 1, pipelineModelParallelSize: 1, dataParallelSize: 1 },
});

function saveDirectory(
  checkpoint: Omit<SaveDirectoryOptions['checkpoint'], 'save'> & { save?: string } = {},
  job: SaveDirectoryOptions['job'] = { id: undefined, restartCount: 0 },
): SaveDirectory {
  const one = new SaveDirectory({
    checkpoint: { save: directory, ...checkpoint },
    job,
    processes: alone,
    onMessage: () => {},
  });
  made.push(one);
  return one;
}

const save = (owner?: SaveDirectory) =>
  saveCheckpoint({ directory, iteration: 1, tensors: [], state: {}, owned: owner?.owned });

it('is refused while another run saves there, with the flag in the remedy, and free after its release', async () => {
  const first = saveDirectory();
  await first.prepare({ numBytes: 0 });
  for (const step of ['ownExisting', 'own'] as const)
    await expect(saveDirectory()[step]()).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_OWNED',
      exitCode: 2,
      remedy: expect.stringContaining('--save'),
    });
  await first.release();
  await saveDirectory().ownExisting();
});

it('is not made before the run is known to begin', async () => {
  const later = join(directory, 'later');
  const one = saveDirectory({ save: later });
  await one.ownExisting();
  expect(existsSync(later)).toBe(false);
  await one.prepare({ numBytes: 0 });
  expect(one.owned?.directory).toBe(later);
});

it('holds checkpoints of one training run', async () => {
  await save();
  const exists = { code: 'MTL_CHECKPOINT_EXISTS', exitCode: 2 };
  // Takes ownership of the directory at the same point as a run, which is before it opens data.
  const early = async (...options: Parameters<typeof saveDirectory>): Promise<void> => {
    const one = saveDirectory(...options);
    await one.ownExisting().finally(() => one.release());
  };
  await early({ load: directory });
  await expect(early()).rejects.toMatchObject({ ...exists, remedy: expect.stringContaining('--load') });
  await expect(early({ load: directory, finetune: true })).rejects.toMatchObject(exists);
  const prepare = async (...options: Parameters<typeof saveDirectory>): Promise<void> => {
    const one = saveDirectory(...options);
    await one.prepare({ numBytes: 0 }).finally(() => one.release());
  };
  await prepare({ load: directory });
  await expect(prepare()).rejects.toMatchObject({ ...exists, remedy: expect.stringContaining('--load') });
  await expect(prepare({ load: '/elsewhere' })).rejects.toMatchObject(exists);
  await expect(prepare({ load: directory, finetune: true })).rejects.toMatchObject({
    ...exists,
    remedy: expect.stringContaining('--finetune starts at iteration 0'),
  });
});

it('may hold checkpoints of earlier attempts of the same job', async () => {
  const first = saveDirectory({}, { id: 'a job', restartCount: 0 });
  await first.prepare({ numBytes: 0 });
  await save(first);
  await first.release();
  const attempt = async (job: SaveDirectoryOptions['job']): Promise<void> => {
    const one = saveDirectory({}, job);
    await one.prepare({ numBytes: 0 }).finally(() => one.release());
  };
  await attempt({ id: 'a job', restartCount: 1 });
  for (const job of [
    { id: 'a job', restartCount: 0 },
    { id: 'another', restartCount: 1 },
    { id: undefined, restartCount: 1 },
  ])
    await expect(attempt(job)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_EXISTS' });
});
