import { configure, describeGptModel, type RunOptions } from '@mtl/configuration';
import { scheduleOfStep } from '@mtl/configuration/strategies';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { gptEmbeddingAndHeadCost } from '@mtl/models';
import { describe, expect, it } from 'vitest';
import { balanceAdvice } from './chunk-layers.js';

/** Returns the advice for a gpt2-124m training run with 8 micro-batches. */
function giveAdvice(
  numStages: number,
  options: RunOptions = {},
  vocabularySize = 50_257,
): string | undefined {
  const run: RunOptions = {
    preset: 'gpt2-124m',
    training: { microBatchSize: 1, globalBatchSize: 8 },
    layout: { pipelineModelParallelSize: numStages },
  };
  const configuration = configure(mergeOptions(run, options), { worldSize: numStages });
  const model = describeGptModel(configuration.model, vocabularySize);
  const schedule = scheduleOfStep(configuration.parallel, 8);
  const work = gptEmbeddingAndHeadCost(model, configuration.model.sequenceLength);
  return balanceAdvice(configuration, { model, work, schedule });
}

describe('balanceAdvice', () => {
  it('says what balanced layers would gain', () => {
    // computed by hand. With 1F1B, two stages take `3 * (6 + 4.46)` per micro-batch, the time of the slower
    // stage, plus `3 * 6` for the faster stage. Balanced, they take `3 * (4 + 4.46)` per micro-batch plus `3
    // * 8`. With 0.01 for the embedding: `(8 * 31.4 + 18) / (8 * 25.4 + 24)`
    expect(giveAdvice(2)).toBe(
      'the head is as much work as 4.5 layers: with --pipeline-model-parallel-layout balanced (8, 4) a step would be about 18 % faster',
    );
  });

  it('counts layers with experts as what a token computes in them', () => {
    const experts: RunOptions = {
      model: {
        disableBiasLinear: true,
        numExperts: 8,
        moeRouterTopk: 4,
        moeLayerFreq: '([0]*6+[1]*6)',
        moeFfnHiddenSize: 3072,
      },
    };
    const advice = giveAdvice(2, experts, 1000);
    // computed by hand: the two kinds of layers take `24 * H^2 + 4 * S * H` and `72 * H^2 + 4 * S * H`
    // multiplications for each token, which is 0.55 and 1.45 times their mean
    expect(advice).toContain('layers are 0.6 to 1.4 times their mean');
    expect(advice).toContain('balanced (8, 4)');
  });

  it.each<[string, number, RunOptions]>([
    ['balanced layers', 2, { layout: { pipelineModelParallelLayout: 'balanced' } }],
    ['given numbers', 2, { layout: { pipelineModelParallelLayout: 'Ettttttt|tttttL' } }],
    ['one stage', 1, {}],
  ])('says nothing of %s', (_, numStages, options) => {
    expect(giveAdvice(numStages, options)).toBeUndefined();
  });

  it('says nothing where it would gain little', () => {
    expect(giveAdvice(2, {}, 1000)).toBeUndefined();
  });
});
