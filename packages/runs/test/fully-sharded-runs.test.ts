import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptResult } from './ranks/train-gpt.js';
import { contentOfCheckpoint } from './support/content-of-checkpoint.js';
import {
  listNumbers,
  printedTwice,
  type Training,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

const numSteps = 12;
const sharded: RunOptions = { layout: { useMegatronFsdp: true } };
const dividedGradients: RunOptions = { layout: { dataParallelShardingStrategy: 'optim_grads' } };
const distributed: RunOptions = { layout: { useDistributedOptimizer: true } };
const halfWay: RunOptions = { training: { exitInterval: 6 }, checkpoint: { saveInterval: 3 } };
const base = mkdtempSync(join(tmpdir(), 'mtl-base-'));

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create({ training: { trainIterations: numSteps, evalInterval: 6 } });
});
afterAll(() => {
  runs.remove();
  rmSync(base, { recursive: true });
});

describe('a GPT with dropout', () => {
  const sampled: RunOptions = { logging: { noEvalSamples: undefined } };
  let [alone, two, four]: TrainGptResult[] = [];
  beforeAll(async () => {
    const half = (options: RunOptions, name: string) => [
      { name, options: mergeOptions(options, halfWay) },
      { name, options: mergeOptions(options, { checkpoint: { load: runs.locate(name) } }) },
    ];
    /** Trains, and returns the result of the first run on the first rank. */
    const train = async (numRanks: number, trainings: readonly Training[]) =>
      (await runs.run(numRanks, trainings))[0]![0]!;
    alone = await train(1, [
      { name: 'alone', options: sampled },
      { name: 'half-alone', options: halfWay },
    ]);
    two = await train(2, [
      { name: 'two', options: mergeOptions(sharded, sampled) },
      ...half(sharded, 'half-two'),
      ...half(distributed, 'half-distributed'),
      {
        name: 'in-background',
        options: mergeOptions(sharded, halfWay, { checkpoint: { asyncSave: true } }),
      },
    ]);
    four = await train(4, [{ name: 'four', options: mergeOptions(sharded, sampled) }]);
  });

  it('learns as one process does, evaluates and generates the same', () => {
    for (const [name, result] of [
      ['two', two],
      ['four', four],
    ] as const) {
      runs.expectSame(name, 'alone');
      expect(validationDifference(result!.output, alone!.output)).toBeLessThan(printedTwice);
      expect(result!.sample).toBe(alone!.sample);
    }
    expect(alone!.sample).toBeDefined();
  });

  it('resumes bitwise', async () => {
    expect(listNumbers(runs.readMetrics('half-two'))).toEqual(listNumbers(runs.readMetrics('two')));
    const [whole, halves] = await Promise.all(
      ['two', 'half-two'].map((name) => contentOfCheckpoint(join(runs.locate(name), 'iter_0000012'))),
    );
    expect(halves).toEqual(whole);
  });

  it.each([3, 6])('saves the same files in the background, at step %i', (step) => {
    const [whole, saved] = ['half-two', 'in-background'].map((name) => {
      const folder = join(runs.locate(name), `iter_000000${step}`);
      const files = readdirSync(folder).filter((file) => file.endsWith('.safetensors'));
      return new Map(files.map((file) => [file, readFileSync(join(folder, file))]));
    });
    expect(whole!.size).toBe(2);
    expect(saved).toEqual(whole);
  });

  it.each([
    ['half-two', 'one process', 1, {}],
    ['half-two', 'a distributed optimizer', 2, distributed],
    ['half-two', 'slices of four ranks', 4, sharded],
    ['half-two', 'slices of gradients', 2, dividedGradients],
    ['half-alone', 'slices of two ranks', 2, sharded],
    ['half-distributed', 'slices of two ranks', 2, sharded],
  ] as const)('goes from %s on with %s', async (from, to, numRanks, options) => {
    const name = `${from} to ${to}`.replaceAll(' ', '-');
    const load = { checkpoint: { load: runs.locate(from), checkpointStep: 6 } };
    const plain = { layout: { useMegatronFsdp: undefined, useDistributedOptimizer: undefined } };
    await runs.run(numRanks, [{ name, options: mergeOptions(plain, options, load) }]);
    const [own, expected] = [name, 'alone'].map((each) => listNumbers(runs.readMetrics(each)).slice(-6));
    expect(own!.length).toBe(6);
    own!.forEach(([loss, norm], step) => {
      expect(Math.abs(loss! / expected![step]![0]! - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(norm! / expected![step]![1]! - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});

it('learns as one process does in 16 bits, with lean states and with a scaled loss, and resumes bitwise', async () => {
  const modes: Readonly<Record<string, RunOptions>> = {
    bf16: { training: { bf16: true } },
    lean: {
      training: { bf16: true },
      optimizer: { usePrecisionAwareOptimizer: true, expAvgDtype: 'bf16', mainGradsDtype: 'bf16' },
    },
    fp16: { training: { fp16: true } },
  };
  const named = (prefix: string, options: RunOptions) =>
    Object.entries(modes).map(([name, mode]) => ({
      name: `${prefix}-${name}`,
      options: mergeOptions(mode, options),
    }));
  await runs.run(1, named('alone', {}));
  await runs.run(2, named('sharded', sharded));
  for (const name of ['bf16', 'lean']) runs.expectSame(`sharded-${name}`, `alone-${name}`, 'bf16');
  // master values are apart from the model's, which follow from them where a checkpoint is loaded
  const resumed = ['bf16', 'lean'].flatMap((mode) => {
    const options = mergeOptions(modes[mode]!, sharded);
    const name = `half-${mode}`;
    return [
      { name, options: mergeOptions(options, halfWay) },
      { name, options: mergeOptions(options, { checkpoint: { load: runs.locate(name) } }) },
    ];
  });
  await runs.run(2, resumed);
  for (const mode of ['bf16', 'lean']) {
    expect(listNumbers(runs.readMetrics(`half-${mode}`)), mode).toEqual(
      listNumbers(runs.readMetrics(`sharded-${mode}`)),
    );
  }
  const [own, expected] = ['sharded-fp16', 'alone-fp16'].map((name) => listNumbers(runs.readMetrics(name)));
  // the first losses are scaled so much that all ranks skip the update
  const listFinite = (lines: number[][]) => lines.map(([, norm]) => Number.isFinite(norm));
  expect(new Set(listFinite(expected!))).toEqual(new Set([false, true]));
  expect(listFinite(own!)).toEqual(listFinite(expected!));
  expected!.forEach(([loss], step) => {
    expect(Math.abs(own![step]![0]! / loss! - 1)).toBeLessThan(tolerances.bf16.loss);
  });
});

it('trains adapters over frozen parameters that are sharded', async () => {
  await writeTinyLlama({ directory: base });
  const adapters = mergeOptions(takenFromDirectory, {
    checkpoint: { loadHuggingFace: base },
    lora: { rank: 4, alpha: 8, targets: ['q_proj', 'down_proj'] },
  });
  await runs.run(1, [{ name: 'adapters', options: adapters }]);
  await runs.run(2, [
    { name: 'sharded-adapters', options: mergeOptions(adapters, sharded) },
    { name: 'divided-adapters', options: mergeOptions(adapters, dividedGradients) },
  ]);
  for (const name of ['sharded-adapters', 'divided-adapters']) runs.expectSame(name, 'adapters');
  const [whole, slices] = await Promise.all(
    ['adapters', 'sharded-adapters'].map((name) =>
      contentOfCheckpoint(join(runs.locate(name), 'iter_0000012')),
    ),
  );
  expect([...slices!.keys()].sort()).toEqual([...whole!.keys()].sort());
  // the base keeps its bits
  for (const [name, content] of whole!) {
    if (/lora|optimizer/.test(name)) continue;
    expect(slices!.get(name), name).toEqual(content);
  }
});
