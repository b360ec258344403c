import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { metricsPath } from '@mtl/run-records';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenMetricsFilesOptions, openMetricsFiles } from './training-reporters.js';

let directory: string;
let run: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-metrics-files-'));
  run = join(directory, 'run');
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Writes a step and an evaluation. Returns the printed messages. */
async function write(options: Partial<OpenMetricsFilesOptions>): Promise<string[]> {
  const printed: string[] = [];
  const files = await openMetricsFiles({
    directory: run,
    copy: undefined,
    resumeIteration: 0,
    onMessage: (text) => printed.push(text),
    ...options,
  });
  const step = {
    iteration: 1,
    consumedSamples: 4,
    consumedTokens: 64,
    globalBatchSize: 4,
    loss: 3,
    gradNorm: 1,
    learningRate: 1e-3,
    lossScale: 1,
    skipped: false,
    stepMs: 5,
    tokensPerSecond: 1,
    modelTflops: 1,
    peakBytes: 1,
  };
  for (const reporter of files.all) reporter.step?.(step);
  for (const reporter of files.all) reporter.validation?.({ iteration: 1, loss: 2, consumedSamples: 4 });
  for (const sink of files.all) await sink.close('finished');
  return printed;
}

const lines = (path: string): unknown[] =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('openMetricsFiles', () => {
  it('writes steps and evaluations into the run folder, and the same into a copy', async () => {
    const copy = join(directory, 'copies', 'all.jsonl');
    expect(await write({ copy })).toEqual([]);
    const expected = [
      expect.objectContaining({ iteration: 1, lm_loss: 3, time: expect.stringMatching(/^20.*Z$/) }),
      expect.objectContaining({ type: 'validation', iteration: 1, lm_loss: 2 }),
    ];
    expect(lines(metricsPath(run))).toEqual(expected);
    expect(lines(copy)).toEqual(expected);
  });

  it('writes once where the copy is the file of the run folder', async () => {
    await write({ copy: join(run, '..', 'run', 'metrics.jsonl') });
    expect(lines(metricsPath(run))).toHaveLength(2);
  });

  it('writes nothing for a run without a folder, unless a copy is named', async () => {
    await write({ directory: undefined });
    expect(existsSync(run)).toBe(false);
  });

  it('prints where the metrics of an earlier run were moved', async () => {
    await write({});
    const path = metricsPath(run);
    expect(await write({})).toEqual([
      `  note: metrics of an earlier run were moved from ${path} to ${path}.1`,
    ]);
    expect(lines(`${path}.1`)).toHaveLength(2);
  });
});
