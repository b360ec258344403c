import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PretrainingConfiguration } from '@mtl/configuration';
import type { MetricsSink } from '@mtl/trainer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { closeSinks, openTrainingReporters } from './training-reporters.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-reporters-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const step = (iteration: number) => ({
  iteration,
  consumedSamples: 4 * iteration,
  consumedTokens: 64 * iteration,
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
});

/** Simulates a training run with an evaluation after each step. Returns its output and its summary. */
async function collectOutput(
  losses: readonly number[],
  {
    resumeIteration = 0,
    preset = 'none',
  }: { readonly resumeIteration?: number; readonly preset?: string } = {},
): Promise<{ readonly printed: string; readonly summary: string }> {
  const configuration = {
    kind: 'gpt',
    preset,
    checkpoint: { save: directory },
    training: { trainIterations: 100 },
    logging: { logInterval: 1, isVerbose: false },
  } as unknown as PretrainingConfiguration;
  let printed = '';
  const write = (text: string): void => {
    printed += text;
  };
  const stream = { isTTY: false, columns: 80, write };
  const { all, summary, close } = await openTrainingReporters({
    configuration,
    stream,
    flopsFormula: '',
    log: undefined,
    resume:
      resumeIteration === 0
        ? undefined
        : { iteration: resumeIteration, consumedSamples: 4 * resumeIteration },
  });
  losses.forEach((loss, index) => {
    const iteration = resumeIteration + index + 1;
    for (const reporter of all) reporter.step?.(step(iteration));
    for (const reporter of all) reporter.validation?.({ iteration, loss, consumedSamples: 4 * iteration });
  });
  return { printed, summary: summary.text({ rows: await close('finished') }) };
}

const summarizeRun = async (...run: Parameters<typeof collectOutput>): Promise<string> =>
  (await collectOutput(...run)).summary;

describe('the lines of a run', () => {
  it('are short for the default preset, and Megatron-LM’s for others', async () => {
    const short = (await collectOutput([3], { preset: 'default' })).printed;
    expect(short).toContain('iteration   1/100 | lm loss 3.0000 | ');
    const { printed } = await collectOutput([3], { preset: 'gpt2-124m' });
    expect(printed).toContain(' iteration        1/     100 | consumed samples:            4 | ');
  });
});

describe('the sinks of a run', () => {
  it('are all closed, also after one that cannot be', async () => {
    const closed: string[] = [];
    const sink = (name: string, error?: Error): MetricsSink => ({
      close: async (outcome) => {
        closed.push(`${name} ${outcome}`);
        if (error !== undefined) throw error;
        return [[name, 'rows']];
      },
    });
    const sinks = [sink('a'), sink('b', new Error('disk full')), sink('c', new Error('later')), sink('d')];
    await expect(closeSinks(sinks, 'failed')).rejects.toThrow('disk full');
    expect(closed).toEqual(['a failed', 'b failed', 'c failed', 'd failed']);
    expect(await closeSinks([sink('a'), sink('d')], 'finished')).toEqual([
      ['a', 'rows'],
      ['d', 'rows'],
    ]);
  });
});

describe('the summary of a run that was resumed', () => {
  it('names the best evaluation of the whole run, but of no step that was trained again', async () => {
    await summarizeRun([3, 2, 2.5, 1]);
    expect(await summarizeRun([2.25], { resumeIteration: 3 })).toMatch(
      /^ {2}validation loss +2\.2500 \(perplexity .*; best 2\.0000 at step 2\)$/m,
    );
  });

  it('says once that the validation loss has been rising, also since before the resume', async () => {
    await summarizeRun([3, 2, 2.1, 2.2]);
    const text = await summarizeRun([2.3, 2.4, 2.5], { resumeIteration: 4 });
    expect(text.match(/rising/g)).toHaveLength(1);
    expect(text).toMatch(
      /^ {2}note +the validation loss has been rising since step 2, from 2\.0000 to 2\.5000/m,
    );
  });
});
