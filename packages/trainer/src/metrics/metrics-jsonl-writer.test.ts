import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MetricsJsonlWriter } from './metrics-jsonl-writer.js';
import type { StepMetrics, TrainingEvent } from './training-reports.js';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-metrics-'));
  path = join(directory, 'metrics.jsonl');
});
afterEach(() => rmSync(directory, { recursive: true }));

const now = () => new Date('2026-11-22T15:30:00.125Z');
const time = now().toISOString();

function makeMetrics(iteration: number): StepMetrics {
  return {
    iteration,
    consumedSamples: iteration * 4,
    consumedTokens: iteration * 64,
    globalBatchSize: 4,
    loss: 1 / 3 + iteration,
    gradNorm: 0.5,
    learningRate: 1.5e-4,
    lossScale: 1,
    skipped: false,
    stepMs: 12.5,
    tokensPerSecond: 5120,
    modelTflops: 0.25,
    peakBytes: 1_000_000,
  };
}

async function writeSteps(iterations: readonly number[], resumeIteration = 0): Promise<MetricsJsonlWriter> {
  const writer = await MetricsJsonlWriter.open({ path, resumeIteration, now });
  for (const iteration of iterations) writer.step(makeMetrics(iteration));
  return writer;
}

const iterationsIn = (text: string): readonly number[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).iteration);

const recordsIn = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('MetricsJsonlWriter', () => {
  it("writes the contract's names with full precision", async () => {
    (await writeSteps([1])).close();
    expect(readFileSync(path, 'utf8')).toBe(
      `{"time":"${time}","iteration":1,"consumed_samples":4,` +
        '"consumed_tokens":64,"lm_loss":1.3333333333333333,"grad_norm":0.5,' +
        '"learning_rate":0.00015,"loss_scale":1,"skipped":false,"step_ms":12.5,"tokens_per_s":5120,' +
        '"model_tflops":0.25,"peak_bytes":1000000}\n',
    );
  });

  it('writes null for what is not finite, and further losses by their names', async () => {
    const writer = await MetricsJsonlWriter.open({ path });
    const otherLosses = { sop_loss: 0.7, total_loss: 2.7 };
    writer.step({ ...makeMetrics(1), gradNorm: Infinity, skipped: true, otherLosses });
    writer.close();
    const line = JSON.parse(readFileSync(path, 'utf8'));
    expect(line).toMatchObject({ grad_norm: null, skipped: true, sop_loss: 0.7, total_loss: 2.7 });
  });

  it('writes the second learning rate where there is one', async () => {
    const writer = await MetricsJsonlWriter.open({ path });
    writer.step({ ...makeMetrics(1), decoupledLearningRate: 5e-4 });
    writer.close();
    expect(recordsIn(path)[0]).toMatchObject({ learning_rate: 1.5e-4, decoupled_learning_rate: 5e-4 });
  });

  it('writes a record of each evaluation, with its further losses by their names', async () => {
    const writer = await writeSteps([1]);
    writer.validation({ iteration: 1, loss: 1 / 3 });
    const otherLosses = { sop_loss: 0.5, total_loss: 2.5 };
    writer.validation({ iteration: 2, loss: 2, otherLosses, tokenLosses: ['lm_loss'] });
    writer.close();
    expect(recordsIn(path).slice(1)).toEqual([
      { type: 'validation', time, iteration: 1, lm_loss: 1 / 3 },
      { type: 'validation', time, iteration: 2, lm_loss: 2, sop_loss: 0.5, total_loss: 2.5 },
    ]);
  });

  it("finds on a resume the losses of evaluations, BERT's masked ones in records of an older version", async () => {
    const older = { lm_loss: 2.5, mlm_loss: 2, sop_loss: 0.5 };
    const lines = [
      { iteration: 1, ...older },
      { type: 'validation', iteration: 1, ...older },
    ];
    writeFileSync(path, `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
    const writer = await MetricsJsonlWriter.open({ path, resumeIteration: 1 });
    writer.close();
    expect(writer.evaluations).toEqual([{ iteration: 1, loss: 2 }]);
  });

  it('writes records of events, and on a resume keeps those up to the checkpoint', async () => {
    const event = (iteration: number): TrainingEvent => ({
      type: 'spike',
      iteration,
      text: 'for people',
      fields: { action: 'skip', lm_loss: 7 },
    });
    const first = await writeSteps([1]);
    for (const iteration of [1, 1]) first.event(event(iteration));
    first.step(makeMetrics(2));
    first.event(event(2));
    first.close();
    expect(recordsIn(path)[1]).toEqual({ type: 'spike', time, iteration: 1, action: 'skip', lm_loss: 7 });
    (await writeSteps([2], 1)).close();
    const numbers = recordsIn(path).map(({ type = 'step', iteration }) => `${type} ${iteration}`);
    expect(numbers).toEqual(['step 1', 'spike 1', 'spike 1', 'step 2']);
  });

  it('keeps the evaluations up to the checkpoint on a resume, and drops later ones', async () => {
    const first = await writeSteps([1, 2]);
    first.validation({ iteration: 2, loss: 5 });
    for (const iteration of [3, 4]) first.step(makeMetrics(iteration));
    first.validation({ iteration: 4, loss: 4 });
    first.close();
    const resumed = await writeSteps([4], 3);
    resumed.validation({ iteration: 4, loss: 4.5 });
    resumed.close();
    expect(resumed.droppedLines).toBe(2);
    const numbers = recordsIn(path).map(({ type = 'step', iteration }) => `${type} ${iteration}`);
    expect(numbers).toEqual(['step 1', 'step 2', 'validation 2', 'step 3', 'step 4', 'validation 4']);
    expect(recordsIn(path).at(-1)).toMatchObject({ lm_loss: 4.5 });
  });

  it('replaces the last evaluation where a finished run is resumed and evaluates again', async () => {
    const first = await writeSteps([1, 2]);
    first.validation({ iteration: 2, loss: 5 });
    first.close();
    const resumed = await writeSteps([], 2);
    resumed.validation({ iteration: 2, loss: 6 });
    resumed.close();
    expect(recordsIn(path).map(({ type, iteration, lm_loss }) => [type, iteration, lm_loss])).toEqual([
      [undefined, 1, 1 / 3 + 1],
      [undefined, 2, 1 / 3 + 2],
      ['validation', 2, 6],
    ]);
  });

  it('has a line in the file as soon as it is written', async () => {
    const writer = await writeSteps([1, 2]);
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1, 2]);
    writer.close();
    writer.close();
    expect(() => writer.step(makeMetrics(3))).toThrow(/is closed/);
  });

  it('drops the lines that a resumed run writes again', async () => {
    (await writeSteps([1, 2, 3, 4, 5])).close();
    const writer = await writeSteps([4, 5, 6], 3);
    writer.close();
    expect(writer.droppedLines).toBe(2);
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1, 2, 3, 4, 5, 6]);
    expect(readdirSync(directory)).toEqual(['metrics.jsonl']);
  });

  it('drops a last line that a killed run left half written', async () => {
    (await writeSteps([1, 2, 3])).close();
    writeFileSync(path, readFileSync(path, 'utf8').slice(0, -20));
    const writer = await writeSteps([3], 2);
    writer.close();
    expect(writer.droppedLines).toBe(1);
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1, 2, 3]);
  });

  it('fixes a file in which two runs wrote the same step', async () => {
    writeFileSync(path, '{"iteration":1}\n{"iteration":2}\n{"iteration":2}\n{"iteration":3}\n');
    (await writeSteps([], 3)).close();
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1, 2, 3]);
  });

  it('moves the file of an earlier run aside and prints where', async () => {
    (await writeSteps([1, 2])).close();
    (await writeSteps([1])).close();
    const writer = await writeSteps([1]);
    writer.close();
    expect(writer.movedAside).toBe(`${path}.2`);
    expect(iterationsIn(readFileSync(`${path}.1`, 'utf8'))).toEqual([1, 2]);
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1]);
  });

  it('makes the folder', async () => {
    path = join(directory, 'a', 'b', 'metrics.jsonl');
    (await writeSteps([1])).close();
    expect(iterationsIn(readFileSync(path, 'utf8'))).toEqual([1]);
  });

  it('names a file that cannot be written', async () => {
    mkdirSync(path);
    const error = { code: 'MTL_METRICS_FILE', exitCode: 2, message: expect.stringContaining(path) };
    await expect(writeSteps([])).rejects.toMatchObject(error);
    await expect(writeSteps([], 3)).rejects.toMatchObject(error);
    const writer = await MetricsJsonlWriter.open({ path: '/dev/full' });
    const full = { code: 'MTL_METRICS_FILE', exitCode: 1, message: expect.stringContaining('/dev/full') };
    expect(() => writer.step(makeMetrics(1))).toThrow(expect.objectContaining(full));
    expect(() => writer.validation({ iteration: 1, loss: 1 })).toThrow(expect.objectContaining(full));
  });

  it.each([
    ['text', 'hello\nworld\n', 1],
    ['one line of text', 'hello\n', 1],
    ['a broken line in the middle', '{"iteration":1}\n{"iter\n{"iteration":3}\n', 2],
  ])('refuses to touch a file that is not its own: %s', async (_, content, line) => {
    writeFileSync(path, content);
    await expect(writeSteps([], 5)).rejects.toMatchObject({
      code: 'MTL_METRICS_FILE',
      message: `${path}, line ${line}, is not a record of metrics`,
    });
    expect(readFileSync(path, 'utf8')).toBe(content);
    expect(readdirSync(directory)).toEqual(['metrics.jsonl']);
  });
});
