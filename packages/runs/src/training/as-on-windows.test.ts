import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest';
import { preparedCorpus } from '../../test/support/prepared-corpus.js';
import { forgetStopSignal } from '../index.js';
import { type TrainOptions, train } from './train.js';

/**
 * The paths for which a rename was refused: the first rename to every target fails, as if a viewer had it.
 */
const refused = new Set<string>();

// The functions of Node.js itself are replaced, since builds of packages are imported without mocks.
const fs = createRequire(import.meta.url)('node:fs') as Mutable<typeof import('node:fs')>;
const { renameSync } = fs;
const { rename } = fs.promises;
type Mutable<Module> = { -readonly [Key in keyof Module]: Module[Key] };

function replaceRenames(replacements: Pick<typeof fs, 'renameSync'> & { rename: typeof rename }): void {
  fs.renameSync = replacements.renameSync;
  fs.promises.rename = replacements.rename;
  syncBuiltinESMExports();
}

function refuseOnce(to: string): void {
  if (refused.has(to)) return;
  refused.add(to);
  throw Object.assign(new Error(`EPERM: operation not permitted, rename ${to}`), { code: 'EPERM' });
}

/** The signals for which Node.js can have listeners on Windows. */
const signalsOfWindows = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGBREAK', 'SIGWINCH'];

const directory = mkdtempSync(join(tmpdir(), 'mtl-as-on-windows-'));
afterAll(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  replaceRenames({
    renameSync: (from, to) => {
      refuseOnce(String(to));
      renameSync(from, to);
    },
    rename: async (from, to) => {
      refuseOnce(String(to));
      await rename(from, to);
    },
  });
  vi.spyOn(process, 'platform', 'get').mockReturnValue('win32');
  const listen = process.on.bind(process);
  vi.spyOn(process, 'on').mockImplementation((event, listener) => {
    if (String(event).startsWith('SIG') && !signalsOfWindows.includes(String(event)))
      throw Object.assign(new Error('uv_signal_start EINVAL'), { code: 'EINVAL' });
    return listen(event as 'exit', listener as () => void);
  });
});
afterEach(() => {
  replaceRenames({ renameSync, rename });
  vi.restoreAllMocks();
});

const save = join(directory, 'run');
let corpus: Awaited<ReturnType<typeof preparedCorpus>>;

/** Trains to the end, or to Ctrl-C at `interruptAt`; returns the reason and the last iteration. */
async function job(interruptAt?: number) {
  const options: TrainOptions = {
    preset: 'char-10m',
    model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 16 },
    data: { sequenceLength: 16, split: '1,0,0', ...corpus.data },
    training: { microBatchSize: 2, globalBatchSize: 2, trainIterations: 6, evalIterations: 0 },
    layout: { threads: 1 },
    logging: { noEvalSamples: true, tensorboardDirectory: join(save, 'tensorboard') },
    checkpoint: { save, load: save, saveHuggingFace: join(save, `hf-${interruptAt ?? 'end'}`) },
  };
  await using run = await train(options);
  for await (const { iteration } of run) if (iteration === interruptAt) process.emit('SIGINT', 'SIGINT');
  return run.result;
}

it('saves at Ctrl-C and resumes although each file that it replaces is in use at first', async () => {
  corpus = await preparedCorpus(directory);
  expect(await job(3)).toMatchObject({ reason: 'SIGINT' });
  forgetStopSignal();
  expect(readdirSync(save)).toContain('iter_0000003');
  expect(await job()).toMatchObject({ reason: 'done' });
  expect(readdirSync(save)).toEqual(
    expect.arrayContaining(['iter_0000003', 'iter_0000006', 'hf-3', 'hf-end']),
  );
  const names = [...refused].map((path) => basename(path));
  expect(names).toEqual(
    expect.arrayContaining(['iter_0000006', 'latest_checkpointed_iteration.txt', 'hf-end', 'run.json']),
  );
});

it('writes no name that Windows refuses or takes for another one of its folder', () => {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  expect(entries.length).toBeGreaterThan(20);
  const paths = entries.map(({ parentPath, name }) => join(parentPath, name).toLowerCase());
  expect(new Set(paths).size).toBe(paths.length);
  for (const { name } of entries) {
    expect(name).not.toMatch(/[<>:"|?*\\]|[. ]$/);
    expect(name).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i);
  }
});
