import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readRunRecord } from '@mtl/run-records';
import { forgetStopSignal, stopSignal } from '@mtl/trainer/stop-signals';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { FineTuningConfiguration } from '../src/flags/fine-tuning-configuration.js';
import { fineTune } from '../src/runs/fine-tune.js';
import { SmallTasks } from './support/small-tasks.js';

let tasks: SmallTasks;
beforeAll(() => {
  tasks = new SmallTasks({ microBatchSize: 4 });
});
afterAll(() => tasks.remove());

const inFolder = (name: string, { resume = false } = {}): FineTuningConfiguration => {
  const base = tasks.configuration('qqp', { epochs: 1 });
  return { ...base, checkpoint: { ...base.checkpoint, save: tasks.path(name), resume } };
};

describe('the seeds of a fine-tuning', () => {
  /** Runs a fine-tuning that gets a signal while the first seed is evaluated for the last time. */
  const stopped = async (seeds: readonly number[], configuration: FineTuningConfiguration) => {
    onTestFinished(forgetStopSignal);
    const told: string[] = [];
    const onMessage = (text: string): void => {
      told.push(text);
      if (text.startsWith('epoch 1, dev')) process.emit('SIGTERM', 'SIGTERM');
    };
    return { report: await fineTune({ configuration, seeds, onMessage }), told };
  };

  it('do not go on after a signal that came when the steps of one were over', async () => {
    const { report } = await stopped([3, 4], inFolder('signal'));
    expect(report).toMatchObject({ reason: 'SIGTERM', seeds: [{ seed: 3, isDone: true }] });
    expect(JSON.parse(readFileSync(tasks.path('signal/report.json'), 'utf8'))).toEqual(report);
    forgetStopSignal();
    const heard: string[] = [];
    const resumed = await fineTune({
      configuration: inFolder('signal', { resume: true }),
      seeds: [3, 4],
      onMessage: (text) => void heard.push(text),
    });
    expect(resumed).toMatchObject({ reason: 'done', seeds: [{ seed: 3 }, { seed: 4 }] });
    expect(heard).toContain('seed 3: done before');
  });

  it('are done where the signal came in the last seed', async () => {
    const { report } = await stopped([3], inFolder('signal-of-last'));
    expect(report).toMatchObject({ reason: 'done', seeds: [{ seed: 3, isDone: true }] });
    expect(stopSignal()).toBe('SIGTERM');
  });

  it('go on from results whose record cannot be read, with a note', async () => {
    await fineTune({ configuration: inFolder('damaged'), seeds: [3], onMessage: () => {} });
    const path = tasks.path('damaged/seed-3');
    const again = async (): Promise<string[]> => {
      const heard: string[] = [];
      const { reason, seeds } = await fineTune({
        configuration: inFolder('damaged', { resume: true }),
        seeds: [3],
        onMessage: (text) => void heard.push(text),
      });
      expect({ reason, seeds }).toMatchObject({ reason: 'done', seeds: [{ isDone: true }] });
      expect(heard).toContain('seed 3: done before');
      return heard;
    };
    const record = JSON.parse(readFileSync(join(path, 'run.json'), 'utf8')) as object;
    const broken = ['{', JSON.stringify({ ...record, version: 1000 })];
    expect((await again()).join('\n')).not.toContain('it is not known');
    for (const text of broken) {
      writeFileSync(join(path, 'run.json'), text);
      const note = (await again()).find((line) => line.includes('it is not known'));
      expect(note).toContain('run.json');
    }
  });

  it('keep checksums of the data that were read at the start, once for all seeds', async () => {
    await fineTune({
      configuration: inFolder('read-once'),
      seeds: [3, 4],
      onMessage: (text) => {
        // at this point the data of the second seed are already in memory
        if (text.startsWith('epoch 1, dev')) appendFileSync(tasks.path('QQP/train.tsv'), '\n');
      },
    });
    const [first, second] = ['seed-3', 'seed-4'].map(
      (seed) => readRunRecord(tasks.path(join('read-once', seed)))!.starts[0]!.datasets,
    );
    expect(first).toMatchObject([{ sha256: expect.any(String) as string }, {}]);
    expect(second).toEqual(first);
  });
});
