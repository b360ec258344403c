import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from './ranks/train-gpt.js';
import { contentOfCheckpoint } from './support/content-of-checkpoint.js';
import { preparedCorpus } from './support/prepared-corpus.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

const numSteps = 2;
const recipe: RunOptions = {
  preset: 'none',
  model: {
    numLayers: 2,
    hiddenSize: 32,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 32,
    attentionDropout: 0.1,
    hiddenDropout: 0.1,
  },
  data: { sequenceLength: 32, split: '90,10,0' },
  training: { microBatchSize: 1, globalBatchSize: 8, trainIterations: numSteps, evalIterations: 0 },
  optimizer: { clipGrad: 1, learningRateDecayStyle: 'constant' },
  layout: { threads: 1 },
};
const tensor = (size: number): RunOptions => ({
  layout: {
    tensorModelParallelSize: size,
    sequenceParallel: true,
    useDistributedOptimizer: true,
    overlapGradReduce: true,
    overlapParamGather: true,
  },
});

let directory: string;
let corpus: RunOptions;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-eight-'));
  corpus = await preparedCorpus(directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const at = (name: string): string => join(directory, name);

interface Step {
  readonly save: string;
  readonly load?: string;
  readonly options?: RunOptions;
  readonly learningRate?: number;
}

/**
 * Trains to step 2, or loads step 2 and saves it again; all runs use the same processes, one after the other.
 */
async function run(worldSize: number, steps: readonly Step[]): Promise<void> {
  const trainings: TrainGptArgument[] = steps.map(({ save, load, options = {}, learningRate = 5e-3 }) => {
    const places = mergeOptions(
      { checkpoint: { save: at(save) } },
      load === undefined ? {} : { checkpoint: { load: at(load) } },
    );
    return {
      options: mergeOptions(recipe, corpus, places, options, {
        optimizer: { maxLearningRate: learningRate },
      }),
    };
  });
  const module = new URL('./ranks/train-gpt.ts', import.meta.url);
  await runProcesses<TrainGptResult[]>({ worldSize, module, argument: trainings });
}

const locate = (name: string): string => join(at(name), `iter_000000${numSteps}`);

const readContent = (name: string): Promise<ReadonlyMap<string, string>> => contentOfCheckpoint(locate(name));

/** Returns hashes of the shards: they are equal if the same ranks hold the same bits of the same boxes. */
const hashShards = (name: string): readonly string[] =>
  readdirSync(locate(name))
    .filter((file) => file.endsWith('.safetensors'))
    .sort()
    .map((file) =>
      createHash('sha256')
        .update(readFileSync(join(locate(name), file)))
        .digest('hex'),
    );

describe('a checkpoint of 8 processes with a distributed optimizer', () => {
  const precisions = [
    { precision: 'fp32', options: {} },
    { precision: 'bf16', options: { training: { bf16: true } } },
  ] as const;

  it(
    'goes to other layouts, to 1 process and back, exactly: fp32 and bf16',
    async () => {
      // run both precisions in the same processes, which take longer to start than to train
      const inBoth = (trainSteps: (options: RunOptions, at: (name: string) => string) => readonly Step[]) =>
        precisions.flatMap(({ precision, options }) => trainSteps(options, (name) => `${name}-${precision}`));
      // tp 2 x dp 4, then tp 4 x dp 2 from its checkpoint, and back
      const [wide, tall] = [tensor(2), tensor(4)];
      await run(
        8,
        inBoth((options, named) => [
          { options: mergeOptions(options, wide), save: named('wide') },
          { options: mergeOptions(options, tall), save: named('tall'), load: named('wide') },
          { options: mergeOptions(options, wide), save: named('wide-again'), load: named('tall') },
        ]),
      );
      await run(
        1,
        inBoth((options, named) => [
          { options, save: named('one'), load: named('wide') },
          { options, save: named('one-of-tall'), load: named('tall') },
        ]),
      );
      await run(
        8,
        inBoth((options, named) => [
          { options: mergeOptions(options, wide), save: named('wide-of-one'), load: named('one') },
          { options: mergeOptions(options, tall), save: named('tall-of-one'), load: named('one-of-tall') },
        ]),
      );
      for (const { precision } of precisions) await expectSameContent((name) => `${name}-${precision}`);
    },
    processTestMs,
  );

  async function expectSameContent(named: (name: string) => string): Promise<void> {
    const content = await readContent(named('wide'));
    const isMoment = (name: string): boolean => name.startsWith('optimizer.exp_avg');
    const numMoments = [...content.keys()].filter(isMoment).length;
    expect(numMoments).toBe(2 * (content.size - numMoments));
    // moments of a training run are not zeros, which many faults would preserve
    for (const [name, bytes] of content) {
      if (isMoment(name)) expect(/[^A=]/.test(bytes), name).toBe(true);
    }
    for (const name of ['tall', 'wide-again', 'one', 'one-of-tall', 'wide-of-one', 'tall-of-one']) {
      expect(await readContent(named(name)), named(name)).toEqual(content);
    }
    expect(hashShards(named('wide')).length).toBe(8);
    expect(hashShards(named('one')).length).toBe(1);
    expect(hashShards(named('wide-again'))).toEqual(hashShards(named('wide')));
    expect(hashShards(named('wide-of-one'))).toEqual(hashShards(named('wide')));
    expect(hashShards(named('tall-of-one'))).toEqual(hashShards(named('tall')));
  }

  it(
    'goes through a Hugging Face directory into another layout, exactly',
    async () => {
      await run(8, [
        {
          save: 'trained',
          options: mergeOptions(tensor(2), { checkpoint: { saveHuggingFace: at('first') } }),
        },
        {
          save: 'still',
          options: mergeOptions(tensor(4), {
            checkpoint: { loadHuggingFace: at('first'), saveHuggingFace: at('second') },
          }),
          // a rate so small that no weight changes in float32: the loaded weights are saved again
          learningRate: 1e-30,
        },
      ]);
      const [first, second] = ['first', 'second'].map((name) =>
        readFileSync(join(at(name), 'model.safetensors')),
      );
      expect(first!.length).toBeGreaterThan(100_000);
      expect(second!.equals(first!)).toBe(true);
    },
    processTestMs,
  );
});
