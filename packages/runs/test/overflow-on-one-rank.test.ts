import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ObservedStep, OverflowCase } from './ranks/overflow-on-one-rank.js';
import { preparedCorpus } from './support/prepared-corpus.js';
import { tolerances } from './support/training-runs.js';

const initialScale = 1024;
const recipe: RunOptions = {
  preset: 'none',
  model: {
    numLayers: 4,
    hiddenSize: 32,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 32,
    attentionDropout: 0.1,
    hiddenDropout: 0.1,
  },
  data: { sequenceLength: 32, split: '90,10,0' },
  training: { microBatchSize: 1, globalBatchSize: 8, trainIterations: 6, evalIterations: 0, fp16: true },
  optimizer: {
    maxLearningRate: 5e-3,
    learningRateDecayStyle: 'constant',
    clipGrad: 1,
    initialLossScale: initialScale,
  },
  layout: { threads: 1 },
};
/**
 * Iterations with an overflow. The first one leaves the loss scale unchanged (--hysteresis 2), the second one
 * halves it.
 */
const iterations = [2, 4];
const stages = (p: number): RunOptions => ({ layout: { pipelineModelParallelSize: p } });
const schedule = (name: string): RunOptions => ({ layout: { pipelineSchedule: name } });

let corpus: RunOptions;
let directory: string;
let alone: readonly ObservedStep[];

async function observe(worldSize: number, each: Omit<OverflowCase, 'iterations'>): Promise<ObservedStep[][]> {
  const argument: OverflowCase[] = [
    { ...each, iterations, options: mergeOptions(recipe, corpus, each.options) },
  ];
  const ranks = await runInMemoryRanks<ObservedStep[][]>({
    worldSize,
    argument,
    timeoutMs: 60_000,
    ...rankThreads(new URL('./ranks/overflow-on-one-rank.ts', import.meta.url)),
  });
  return ranks.map(([steps]) => steps!);
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-overflow-'));
  corpus = await preparedCorpus(directory);
  [alone] = (await observe(1, { options: {}, stage: 0 })) as [ObservedStep[]];
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('an overflow in one stage of a pipeline', () => {
  it.each<{ worldSize: number; stage: number; options: RunOptions }>([
    { worldSize: 2, stage: 0, options: mergeOptions(stages(2), schedule('1f1b')) },
    { worldSize: 2, stage: 1, options: mergeOptions(stages(2), schedule('zb-v')) },
    { worldSize: 4, stage: 2, options: mergeOptions(stages(4), schedule('zb-h2')) },
    // overflows on one tensor-parallel rank alone
    {
      worldSize: 4,
      stage: 1,
      options: mergeOptions(stages(2), { layout: { tensorModelParallelSize: 2, sequenceParallel: true } }),
    },
    // overflows on one data-parallel rank, and then in the slice of the rank that sums it
    {
      worldSize: 4,
      stage: 0,
      options: mergeOptions(stages(2), {
        layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
      }),
    },
  ])('is one of all: stage $stage, $options', async ({ worldSize, stage, options }) => {
    expectOverflowOfAll(await observe(worldSize, { options, stage }));
  });
});

describe('an overflow on one rank of two instances', () => {
  const stores = ['optim', 'optim_grads', 'optim_grads_params'] as const;
  // both ranks are the second one of their instance; the norm counts the first instance alone
  it.each(stores.flatMap((store) => [1, 3].map((rank) => [store, rank] as const)))(
    'is one of both instances: %s, rank %i',
    async (store, dataParallelRank) => {
      expectOverflowOfAll(await observe(4, { options: inInstances(store), stage: 0, dataParallelRank }));
    },
  );

  it('would stay in its instance without sums over instances', async () => {
    const fault = { fault: 'drop-instance-sums', dataParallelRank: 3 };
    const ranks = await observe(4, { options: inInstances('optim_grads_params'), stage: 0, ...fault });
    expect(() => expectOverflowOfAll(ranks)).toThrow();
    // the first instance takes the step, which the second one cannot take
    expect(ranks.map(([, step]) => step!.skipped)).toEqual([false, false, false, false]);
  });
});

/** Four data-parallel ranks in two instances. */
function inInstances(
  dataParallelShardingStrategy: NonNullable<RunOptions['layout']>['dataParallelShardingStrategy'],
): RunOptions {
  return { layout: { dataParallelShardingStrategy, numDistributedOptimizerInstances: 2 } };
}

/** Checks that all ranks skip the steps with an overflow, and otherwise learn as one process does. */
function expectOverflowOfAll(ranks: readonly ObservedStep[][]): void {
  for (const steps of ranks) {
    expect(steps.map(({ skipped }) => skipped)).toEqual([false, true, false, true, false, false]);
    expect(steps.map(({ changed }) => changed)).toEqual([true, false, true, false, true, true]);
    const scales = [1, 1, 1, 1, 0.5, 0.5].map((factor) => factor * initialScale);
    expect(steps.map(({ lossScale }) => lossScale)).toEqual(scales);
    // metrics cover the global batch on every rank
    expect(steps.map(({ loss }) => loss)).toEqual(ranks[0]!.map(({ loss }) => loss));
    // float16 has three bits more than bfloat16, whose bounds between layouts are used here
    steps.forEach(({ loss, gradientNorm, skipped }, index) => {
      expect(Math.abs(loss / alone[index]!.loss - 1)).toBeLessThan(tolerances.bf16.loss);
      if (skipped) expect(gradientNorm).toBe(Number.POSITIVE_INFINITY);
      else expect(Math.abs(gradientNorm / alone[index]!.gradientNorm - 1)).toBeLessThan(tolerances.bf16.norm);
    });
  }
}
