import { configure, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import { beforeAll, describe, expect, it } from 'vitest';
import { dryRunModel } from '../../src/dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../../src/dry-run/dry-run-rank.js';

// an emulated device then accounts for memory only: the sizes can be larger
process.env.MTL_EMULATION_IDLE = '1';
const { problem, title } = findGpu();

const sizes: RunOptions = {
  preset: 'none',
  model: { numLayers: 4, hiddenSize: 64, numAttentionHeads: 4, maxPositionEmbeddings: 64 },
  data: {
    dataPath: ['bundled'],
    sequenceLength: 64,
    tokenizerType: 'NullTokenizer',
    vocabSize: 2000,
    split: '100,0,0',
  },
  training: { microBatchSize: 2, globalBatchSize: 12, trainIterations: 3 },
  optimizer: { maxLearningRate: 1e-3 },
  layout: { device: 'cuda' },
};
const recompute: RunOptions = { training: { recomputeGranularity: 'full', recomputeMethod: 'uniform' } };
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2 } };

interface Case {
  readonly name: string;
  readonly worldSize?: number;
  readonly options: RunOptions;
}

const cases: readonly Case[] = [
  { name: 'GPT', options: {} },
  { name: 'GPT, bf16, recomputed', options: mergeOptions({ training: { bf16: true } }, recompute) },
  { name: 'GPT, CUDA graphs', options: { layout: { cudaGraphs: true }, training: { bf16: true } } },
  {
    name: 'GPT, dp 2, distributed optimizer',
    worldSize: 2,
    options: { layout: { useDistributedOptimizer: true }, training: { bf16: true } },
  },
  { name: 'GPT, tp 2', worldSize: 2, options: tensor },
  {
    name: 'GPT, tp 2, sequence parallel',
    worldSize: 2,
    options: mergeOptions(tensor, { layout: { sequenceParallel: true }, training: { bf16: true } }),
  },
  { name: 'BERT', options: { model: { kind: 'bert' }, training: { bf16: true } } },
  { name: 'BERT, tp 2', worldSize: 2, options: mergeOptions(tensor, { model: { kind: 'bert' } }) },
];

describe.skipIf(problem !== undefined)(`the memory of a training run on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each(cases)('is what device meta-cuda counts: $name', async ({ worldSize = 1, options }) => {
    const configuration = configure(mergeOptions(sizes, options), { worldSize });
    const rank = { rank: 0, numSteps: 3, ...(await dryRunModel(configuration)) };
    const run = metaRun(configuration);
    expect(run.configuration.parallel.device).toBe('meta-cuda');
    const counted = await dryRunRank(run, rank);
    // runs this rank with values: other ranks are simulated as on device meta-cuda
    const parallel = { ...run.configuration.parallel, device: 'cuda' as const };
    const measured = await dryRunRank({ ...run, configuration: { ...run.configuration, parallel } }, rank);
    expect(counted.peakBytes).toBe(measured.peakBytes);
    expect(counted.memoryByKind).toEqual(measured.memoryByKind);
    expect(counted.sentBytes).toEqual(measured.sentBytes);
  });
});
