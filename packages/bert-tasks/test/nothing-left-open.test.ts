import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { numLiveTensors } from '@mtl/kernels';
import { afterAll, expect, it } from 'vitest';
import { type FineTuningConfiguration, fineTune } from '../src/index.js';
import { SmallTasks } from './support/small-tasks.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-left-open-'));
const locate = (name: string): string => join(directory, name);
const tasks = new SmallTasks({ microBatchSize: 4 });
mkdirSync(locate('folder'));
afterAll(() => {
  tasks.remove();
  rmSync(directory, { recursive: true });
});

async function fineTuned(changes: (save: string) => Partial<FineTuningConfiguration>): Promise<void> {
  const save = mkdtempSync(join(directory, 'task-'));
  const checkpoint = { ...tasks.configuration('qqp').checkpoint, save };
  const configuration = tasks.configuration('qqp', { epochs: 1, checkpoint, ...changes(save) });
  await fineTune({ configuration, onMessage: () => {} });
}

it.each<[name: string, call: () => Promise<unknown>, error?: string | RegExp]>([
  ['fineTune', () => fineTuned(() => ({}))],
  [
    'fineTune that cannot report',
    () => fineTuned(() => ({ metricsJsonl: locate('folder') })),
    'MTL_METRICS_FILE',
  ],
  [
    'fineTune that cannot save',
    () =>
      fineTuned((save) => {
        writeFileSync(join(save, 'seed-1234'), '');
        return {};
      }),
    /^MTL_FINE_TUNING_FOLDER --save: .*seed-1234/,
  ],
  [
    'fineTune whose service cannot be opened',
    () =>
      fineTuned((save) => {
        mkdirSync(join(save, 'seed-1234'));
        writeFileSync(join(save, 'seed-1234/tracking.json'), '{');
        return {
          checkpoint: { ...tasks.configuration('qqp').checkpoint, save, resume: true },
          tracking: { 'mlflow-tracking-uri': 'http://127.0.0.1:9' },
        };
      }),
    'MTL_TRACKING_STATE',
  ],
])('%s leaves no descriptor and no tensor', async (_, call, error) => {
  const once = async (): Promise<void> => {
    const reason = (await call().then(
      () => undefined,
      (cause: unknown) => cause,
    )) as (Error & { code?: string }) | undefined;
    if (error === undefined) expect(reason).toBeUndefined();
    else expect(`${reason?.code} ${reason?.message}`).toMatch(error);
  };
  // open resources that a process opens only once, such as threads
  await once();
  const before = { descriptors: openFiles(), numTensors: numLiveTensors() };
  await once();
  expect({ descriptors: openFiles(), numTensors: numLiveTensors() }).toEqual(before);
});

/** Returns the number of open file descriptors of this process. */
const openFiles = (): number => readdirSync('/proc/self/fd').length;
