import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { preparedCorpus, processTestMs, runProcesses, writeBaseModel } from '@mtl/runs/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MeasuredMemory } from './ranks/measure-memory.js';
import { ofGroups } from './support/sent-by-groups.js';

/** Every token uses all experts, so routing is as even as in a dry run. */
const recipe: RunOptions = {
  preset: 'none',
  model: {
    numLayers: 4,
    hiddenSize: 64,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 128,
    normalization: 'RMSNorm',
    swiglu: true,
    disableBiasLinear: true,
    attentionDropout: 0,
    hiddenDropout: 0,
    numExperts: 4,
    moeLayerFreq: '2',
    moeRouterTopk: 4,
    moeFfnHiddenSize: 48,
    moeSharedExpertIntermediateSize: 32,
    moeRouterLoadBalancingType: ['seq_aux_loss'],
    moeAuxLossCoeff: [0.01],
  },
  data: { sequenceLength: 128, split: '90,10,0' },
  training: { evalIterations: 0, globalBatchSize: 16, microBatchSize: 4, trainIterations: 2 },
  optimizer: { maxLearningRate: 1e-3, learningRateDecayStyle: 'constant', clipGrad: 1 },
  layout: { threads: 1 },
};
const spread = (layout: RunOptions['layout']): RunOptions => ({ layout });
const bias: RunOptions = {
  model: { moeRouterScoreFunction: 'sigmoid', moeRouterEnableExpertBias: true },
};
const sharded: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const recomputed: RunOptions = {
  training: { recomputeGranularity: 'selective', recomputeModules: ['moe', 'shared_experts'] },
};

/** A Qwen2-MoE: a model of the transformers library, as the base model of adapters. */
const qwen: RunOptions = {
  model: {
    positionEmbeddingType: 'rope',
    addQkvBias: true,
    moeSharedExpertGate: true,
    moeRouterPreSoftmax: true,
    moeRouterLoadBalancingType: undefined,
    moeAuxLossCoeff: undefined,
  },
};
const lora = mergeOptions(qwen, { lora: { rank: 8 } });

const cases = [
  { name: 'one process', worldSize: 1, options: bias },
  { name: 'dp 2, ep 2', worldSize: 2, options: mergeOptions(spread({ expertModelParallelSize: 2 }), bias) },
  {
    name: 'dp 2, ep 2, recomputed, bf16',
    worldSize: 2,
    options: mergeOptions(spread({ expertModelParallelSize: 2 }), recomputed, sharded, {
      training: { bf16: true },
    }),
  },
  {
    name: 'dp 2, ep 2, tokens by all-gather',
    worldSize: 2,
    options: spread({ expertModelParallelSize: 2, moeTokenDispatcherType: 'allgather' }),
  },
  { name: 'tp 2, etp 2', worldSize: 2, options: tensor },
  {
    name: 'LoRA, dp 2, ep 2, distributed optimizer',
    worldSize: 2,
    options: mergeOptions(lora, spread({ expertModelParallelSize: 2 }), sharded),
  },
  {
    name: 'LoRA, tp 2, etp 2, recomputed, bf16',
    worldSize: 2,
    options: mergeOptions(lora, tensor, recomputed, { training: { bf16: true } }),
  },
  {
    name: 'tp 2, dp 2, ep 2, etp 1',
    worldSize: 4,
    options: mergeOptions(
      tensor,
      spread({ expertModelParallelSize: 2, expertTensorParallelSize: 1 }),
      sharded,
      bias,
    ),
  },
  // the only layout whose experts are reduced by a separate group
  { name: 'dp 4, ep 2', worldSize: 4, options: spread({ expertModelParallelSize: 2 }) },
  {
    name: 'dp 4, ep 2, 2 instances',
    worldSize: 4,
    options: mergeOptions(sharded, {
      layout: { expertModelParallelSize: 2, numDistributedOptimizerInstances: 2 },
    }),
  },
  ...inWholeRuns({
    name: 'tp 2, dp 2, ep 2, etp 2',
    worldSize: 4,
    options: mergeOptions(tensor, spread({ expertModelParallelSize: 2 }), sharded),
  }),
] as const;
const names = cases.map(({ name }) => name);
type Name = (typeof names)[number];

describe('what experts take on a rank, in processes that train', () => {
  const measured = new Map<Name, readonly MeasuredMemory[]>();
  let directory: string;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-memory-of-experts-'));
    const corpus = await preparedCorpus(directory);
    const base = join(directory, 'base');
    await writeBaseModel(mergeOptions(recipe, qwen), base);
    for (const worldSize of [1, 2, 4]) {
      const own = cases.filter((each) => each.worldSize === worldSize);
      const ranks = await runProcesses<MeasuredMemory[]>({
        worldSize,
        module: new URL('./ranks/measure-memory.ts', import.meta.url),
        argument: own.map(({ name, options }) => {
          const start = name.startsWith('LoRA') ? { checkpoint: { loadHuggingFace: base } } : {};
          return mergeOptions(recipe, corpus, options, start);
        }),
      });
      own.forEach(({ name }, index) => {
        measured.set(
          name,
          ranks.map((results) => results[index]!),
        );
      });
    }
  }, 3 * processTestMs);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(names)('is what a dry run counts: %s', (name) => {
    for (const { peak, flops, sentBytes, dry } of measured.get(name)!) {
      expect({ peak, flops, sentBytes }).toEqual({
        peak: dry.peakBytes,
        flops: dry.flops,
        sentBytes: ofGroups(dry.sentBytes, sentBytes),
      });
    }
  });

  it('is told apart by what it is for, where groups have the same members', () => {
    const [{ dry }] = measured.get('dp 2, ep 2') as [MeasuredMemory];
    // rows of 4 micro-batches of 512 tokens, 4 experts and 2 layers; half of the rows are sent, 4 times
    const rows = 2 * 2 * 512 * 4 * 64 * 4 * (1 / 2) * 4;
    // with their probabilities, in three of the four transfers, and counts
    expect(dry.sentBytes.ep! / rows).toBeGreaterThan(1);
    expect(dry.sentBytes.ep! / rows).toBeLessThan(1.02);
    // gradients of all parameters outside of experts
    const expertParameters = 2 * 4 * 3 * 48 * 64;
    const dense = dry.numParameters - expertParameters / 2;
    expect(dry.sentBytes.dp! / (4 * dense)).toBeGreaterThan(0.99);
    expect(dry.sentBytes.dp! / (4 * dense)).toBeLessThan(1.05);
  });
});
