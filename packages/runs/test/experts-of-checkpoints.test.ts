import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contentOfCheckpoint } from './support/content-of-checkpoint.js';
import { TrainingRuns, tolerances } from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

const numSteps = 2;

/** A Llama without dropout. */
const recipe: RunOptions = {
  model: {
    positionEmbeddingType: 'rope',
    normalization: 'RMSNorm',
    swiglu: true,
    disableBiasLinear: true,
    ffnHiddenSize: 48,
    attentionDropout: 0,
    hiddenDropout: 0,
  },
  training: { trainIterations: numSteps, evalInterval: numSteps },
  optimizer: { learningRateDecayIterations: numSteps },
};

/** Sigmoid scores with biases that loads move, in the second of two layers. */
const experts: RunOptions = {
  model: {
    numExperts: 8,
    moeLayerFreq: '[0,1]',
    moeRouterTopk: 3,
    moeFfnHiddenSize: 24,
    moeRouterScoreFunction: 'sigmoid',
    moeRouterEnableExpertBias: true,
    moeRouterLoadBalancingType: ['seq_aux_loss'],
    moeAuxLossCoeff: [0.01],
    moeSharedExpertIntermediateSize: 16,
  },
};

let runs: TrainingRuns;
let huggingFace: string;
beforeAll(async () => {
  runs = await TrainingRuns.create(recipe);
  huggingFace = runs.locate('llama');
  await writeTinyLlama({ directory: huggingFace });
});
afterAll(() => runs.remove());

const locateCheckpoint = (name: string): string => join(runs.locate(name), `iter_000000${numSteps}`);

const layouts: ReadonlyArray<
  readonly [worldSize: number, name: string, layout: NonNullable<RunOptions['layout']>]
> = [
  [1, 'ep 1', {}],
  [4, 'ep 4', { expertModelParallelSize: 4 }],
  [4, 'ep 4, distributed optimizer', { expertModelParallelSize: 4, useDistributedOptimizer: true }],
  [2, 'etp 2', { tensorModelParallelSize: 2, sequenceParallel: true, expertTensorParallelSize: 2 }],
  [
    4,
    'tp 2, ep 2 of it',
    {
      tensorModelParallelSize: 2,
      sequenceParallel: true,
      expertTensorParallelSize: 1,
      expertModelParallelSize: 2,
    },
  ],
];

describe('a checkpoint of experts that two processes share', () => {
  it('goes to other layouts exactly: weights, biases of experts, moments', async () => {
    const layout = { expertModelParallelSize: 2, useDistributedOptimizer: true };
    await runs.run(2, [{ name: 'saved', options: mergeOptions(experts, { layout }) }]);
    const saved = await contentOfCheckpoint(locateCheckpoint('saved'));
    const bias = 'decoder.layers.1.mlp.router.expert_bias';
    // both steps have moved the biases
    expect(Buffer.from(saved.get(bias)!, 'base64').some((byte) => byte !== 0)).toBe(true);
    for (const [worldSize, name, layoutOfOther] of layouts) {
      const options = mergeOptions(experts, {
        layout: layoutOfOther,
        checkpoint: { load: runs.locate('saved') },
      });
      await runs.run(worldSize, [{ name, options }]);
      const other = await contentOfCheckpoint(locateCheckpoint(name));
      expect([...other.keys()].sort(), name).toEqual([...saved.keys()].sort());
      for (const [tensor, bytes] of saved)
        expect(other.get(tensor) === bytes, `${name}: ${tensor}`).toBe(true);
    }
  });
});

/** All experts are copies, so any choice of experts with weights that sum to 1 equals the dense layer. */
const upcycled: RunOptions = {
  model: { numExperts: 4, moeRouterTopk: 2 },
  checkpoint: { upcycle: true },
};

describe('upcycling', () => {
  const firstLoss = (name: string): number => runs.readMetrics(name)[0]!.lm_loss;

  it.each(['load', 'load-hf'] as const)('begins with the loss of the dense model of --%s', async (from) => {
    const start =
      from === 'load'
        ? { checkpoint: { load: runs.locate('dense'), finetune: true } }
        : mergeOptions(
            takenFromDirectory,
            { checkpoint: { loadHuggingFace: huggingFace } },
            // flags that the directory gives
            { model: Object.fromEntries(Object.keys(recipe.model!).map((key) => [key, undefined])) },
          );
    if (from === 'load') await runs.run(1, [{ name: 'dense' }]);
    const [same, sparse] = [`${from}-dense`, `${from}-sparse`];
    const results = await runs.run(1, [
      { name: same, options: start },
      { name: sparse, options: mergeOptions(start, upcycled) },
    ]);
    expect(results[1]![0]!.output).toMatch(/of whose feed-forward layers the experts are copies/);
    // sums of two experts are rounded once more than the one layer: float32 through two layers
    expect(Math.abs(firstLoss(sparse) / firstLoss(same) - 1)).toBeLessThan(tolerances.fp32.loss);
    // after a step, the experts differ
    expect(runs.readMetrics(sparse)[1]!.grad_norm).not.toBe(runs.readMetrics(same)[1]!.grad_norm);
    for (const [worldSize, layout] of [
      [2, { expertModelParallelSize: 2, useDistributedOptimizer: true }],
      [2, { tensorModelParallelSize: 2, sequenceParallel: true }],
    ] as const) {
      const name = `${from}-${Object.keys(layout)[0]!}`;
      await runs.run(worldSize, [{ name, options: mergeOptions(start, upcycled, { layout }) }]);
      const { loss, norm } = runs.differences(name, sparse);
      expect(loss).toBeLessThan(tolerances.fp32.loss);
      expect(norm).toBeLessThan(tolerances.fp32.norm);
    }
  });

  it('makes every expert a copy of the dense layer', async () => {
    const options = mergeOptions(upcycled, {
      checkpoint: { load: runs.locate('dense'), finetune: true },
      // nothing is learned
      optimizer: { maxLearningRate: 1e-30, minLearningRate: 0, weightDecay: 0 },
    });
    await runs.run(1, [{ name: 'copies', options }]);
    const [dense, sparse] = [
      await contentOfCheckpoint(locateCheckpoint('dense')),
      await contentOfCheckpoint(locateCheckpoint('copies')),
    ];
    for (const part of ['linear_fc1.weight', 'linear_fc2.weight']) {
      const layer = Buffer.from(dense.get(`decoder.layers.1.mlp.${part}`)!, 'base64');
      const all = Buffer.from(sparse.get(`decoder.layers.1.mlp.experts.${part}`)!, 'base64');
      expect(all.length).toBe(4 * layer.length);
      for (let expert = 0; expert < 4; expert++) {
        expect(all.subarray(expert * layer.length, (expert + 1) * layer.length).equals(layer)).toBe(true);
      }
    }
  });

  it.each<[string, RunOptions, RegExp]>([
    [
      'a mixture of experts',
      { checkpoint: { load: 'copies', finetune: true } },
      /a mixture of experts already/,
    ],
    [
      'another model',
      { model: { hiddenSize: 64 }, checkpoint: { load: 'dense', finetune: true } },
      /--hidden-size 32.*--hidden-size 64/,
    ],
  ])('refuses %s', async (_, options, message) => {
    const load = runs.locate(options.checkpoint!.load!);
    const run = mergeOptions(upcycled, options, { checkpoint: { load } });
    await expect(runs.run(1, [{ name: 'refused', options: run }])).rejects.toThrow(message);
  });
});
