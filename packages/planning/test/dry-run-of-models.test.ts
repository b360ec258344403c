import { fileURLToPath } from 'node:url';
import { configure, flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { loadModelBlocks } from '@mtl/runs/internal';
import { describe, expect, it } from 'vitest';
import { dryRun } from '../src/index.js';

const blocks = fileURLToPath(new URL('../../runs/test/support/own-blocks.mjs', import.meta.url));

describe('Llama 3 8B', () => {
  /** The model and the layout of Megatron-LM's example on 8 GPUs. */
  const example: RunOptions = {
    preset: 'none',
    model: {
      numLayers: 32,
      hiddenSize: 4096,
      ffnHiddenSize: 14_336,
      numAttentionHeads: 32,
      groupQueryAttention: true,
      numQueryGroups: 8,
      headSize: 128,
      maxPositionEmbeddings: 8192,
      positionEmbeddingType: 'rope',
      swiglu: true,
      disableBiasLinear: true,
      attentionDropout: 0,
      hiddenDropout: 0,
      untieEmbeddingsAndOutputWeights: true,
    },
    training: { microBatchSize: 1, globalBatchSize: 128, trainIterations: 100, bf16: true },
    optimizer: { maxLearningRate: 1.5e-4 },
    data: { sequenceLength: 8192, mockData: true, tokenizerType: 'NullTokenizer', vocabSize: 128_256 },
    layout: { useDistributedOptimizer: true, sequenceParallel: true },
  };

  it('has 8 billion parameters, and a dry run counts the memory of a rank', async () => {
    const { numParameters, ranks } = await dryRun(configure(example, { worldSize: 8 }));
    // counts the parameters of Llama 3, and the biases of LayerNorm, which the script does not replace with
    // RMSNorm
    expect(numParameters).toBe(8_030_261_248 + 65 * 4096);
    expect(ranks.length).toBe(1);
    expect(ranks[0]!.numParameters).toBe(numParameters);
    // bf16 values, fp32 gradients, and a shard of an eighth of the optimizer's state
    expect(ranks[0]!.peakBytes).toBeGreaterThan((2 + 4 + 12 / 8) * numParameters);
  });

  it('is divided by tensor parallelism', async () => {
    const divided = mergeOptions(example, {
      layout: { tensorModelParallelSize: 2 },
      model: { normalization: 'RMSNorm' },
    });
    const { numParameters, ranks } = await dryRun(configure(divided, { worldSize: 16 }));
    expect(numParameters).toBe(8_030_261_248);
    expect(ranks.length).toBe(2);
    for (const rank of ranks) {
      // half of the matrices
      expect(rank.numParameters / numParameters).toBeGreaterThan(0.5);
      expect(rank.numParameters / numParameters).toBeLessThan(0.501);
      expect(rank.peakBytes).toBeGreaterThan((2 + 4 + 12 / 8) * rank.numParameters);
    }
  });
});

describe('a model with blocks of its own', () => {
  it('is counted by a dry run', async () => {
    const countParameters = async (more: RunOptions): Promise<number> => {
      const sizes = { numLayers: 4, hiddenSize: 32, numAttentionHeads: 4, maxPositionEmbeddings: 32 };
      const flags = flagsOfOptions(
        mergeOptions(more, {
          preset: 'none',
          model: sizes,
          training: { microBatchSize: 1, trainIterations: 2 },
          optimizer: { maxLearningRate: 1e-3 },
          data: { sequenceLength: 32, dataPath: ['bundled'] },
        }),
      );
      await loadModelBlocks(flags);
      const { ranks } = await dryRun(validateConfiguration(flags));
      return ranks[0]!.numParameters;
    };
    // each of two layers has a matrix before and a matrix after 128 more features, without their biases
    const more = 2 * (2 * 32 * 128 - 128 - 32);
    expect(await countParameters({ model: { modelBlocks: blocks } })).toBe(
      (await countParameters({})) + more,
    );
  });
});

it('is planned as a model with other positions is: the same memory and the same operations', async () => {
  const planned = async (model: RunOptions['model']) => {
    const sizes = { numLayers: 2, hiddenSize: 32, numAttentionHeads: 4, maxPositionEmbeddings: 8192 };
    const flags = flagsOfOptions({
      preset: 'none',
      model: { ...sizes, ...model },
      training: { microBatchSize: 1, trainIterations: 2 },
      optimizer: { maxLearningRate: 1e-3 },
      data: { sequenceLength: 8192, dataPath: ['bundled'] },
    });
    const { ranks } = await dryRun(validateConfiguration(flags));
    return ranks;
  };
  const yarn = await planned({ positionEmbeddingType: 'yarn', rotaryScalingFactor: 2 });
  expect(yarn).toEqual(await planned({ positionEmbeddingType: 'rope' }));
  expect(yarn).not.toEqual(await planned({ positionEmbeddingType: 'none' }));
});
