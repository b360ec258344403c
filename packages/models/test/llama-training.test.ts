import { allocateParameters } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { expect, it } from 'vitest';
import { type GptModelConfiguration, GptStage, numLossTokens, type TokenBatch } from '../src/index.js';
import { fixturePath, readFixture } from './bert-fixture.js';
import { descend, padded, readTensors } from './support/training-fixture.js';

interface Curve {
  readonly losses: readonly number[];
  readonly gradientNorms: readonly number[];
}

type Name = 'llama' | 'qwen2' | 'qwen3';

const fixture = readFixture<
  {
    readonly recipe: {
      readonly learningRate: number;
      readonly warmup: number;
      readonly clip: number;
      readonly batchSize: number;
      readonly sequenceLength: number;
    };
    /** Of each step [B, S + 1]. */
    readonly batches: readonly (readonly (readonly number[])[])[];
  } & Readonly<Record<Name, Curve>>
>('llama-training/training.json');

const common: GptModelConfiguration = {
  numLayers: 2,
  hiddenSize: 24,
  ffnHiddenSize: 34,
  numAttentionHeads: 4,
  groupQueryAttention: true,
  maxPositionEmbeddings: 32,
  positionEmbeddingType: 'rope',
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  vocabularySize: 41,
  makeVocabularySizeDivisibleBy: 16,
  tieEmbeddings: false,
  layerNormEpsilon: 1e-6,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.02,
};

/** The models of tooling/fixtures/llama.py. */
const models: Readonly<Record<Name, GptModelConfiguration>> = {
  llama: {
    ...common,
    numAttentionHeads: 6,
    numQueryGroups: 2,
    layerNormEpsilon: 1e-5,
    rotaryBase: 500_000,
    useRopeScaling: true,
    ropeScalingFactor: 8,
  },
  qwen2: { ...common, numQueryGroups: 1, addQkvBias: true, tieEmbeddings: true },
  qwen3: { ...common, numQueryGroups: 2, kvChannels: 10, qkLayernorm: true, rotaryBase: 1_000_000 },
};

function batchOf(rows: readonly (readonly number[])[]): TokenBatch {
  const { batchSize, sequenceLength } = fixture.recipe;
  const size = batchSize * sequenceLength;
  return {
    batchSize,
    sequenceLength,
    tokens: Int32Array.from(rows.flatMap((row) => row.slice(0, -1))),
    labels: Int32Array.from(rows.flatMap((row) => row.slice(1))),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    keyStart: undefined,
  };
}

it.each(['llama', 'qwen2', 'qwen3'] as const)(
  "trains as transformers' model does, from the same weights and batches: %s",
  async (name) => {
    const live = numLiveTensors();
    const stage = new GptStage({ model: models[name], device: 'cpu', dtype: 'float32', seed: 1 });
    const storage = allocateParameters(stage.parameters, {
      device: 'cpu',
      dtype: 'float32',
      mainGradients: true,
    });
    const path = fixturePath(`llama-training/${name}.safetensors`);
    const [initial, expectedGradients] = [
      await readTensors(path, 'initial.'),
      await readTensors(path, 'gradient.'),
    ];
    expect(stage.parameters.map((parameter) => parameter.name).sort()).toEqual([...initial.keys()].sort());
    for (const parameter of stage.parameters) {
      parameter.data.write(padded(parameter, initial.get(parameter.name)!));
    }
    const { recipe, batches, [name]: expected } = fixture;
    batches.forEach((rows, step) => {
      const batch = batchOf(rows);
      for (const { mainGradient } of stage.parameters) mainGradient.zero();
      const factor = 1 / numLossTokens(batch);
      stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: factor } });
      stage.backwardInput({ microBatch: 0, weights: true });
      const [taken] = stage.takeLosses(0);
      const loss = factor * taken!.losses.toArray().reduce((sum, value) => sum + value, 0);
      taken!.dispose();
      let squares = 0;
      for (const parameter of stage.parameters) {
        const gradient = parameter.mainGradient.read<'float32'>();
        squares += gradient.reduce((sum, value) => sum + value * value, 0);
        if (step > 0) continue;
        const reference = padded(parameter, expectedGradients.get(parameter.name)!);
        const distance = Math.hypot(...gradient.map((value, index) => value - reference[index]!));
        // the bounds of the design against PyTorch: 1e-5 for gradients of step 1 and losses, 1e-4 for norms
        expect(distance, parameter.name).toBeLessThan(1e-5 * Math.hypot(...reference));
      }
      const norm = Math.sqrt(squares);
      const warmup = Math.min(1, (step + 1) / recipe.warmup);
      const rate = recipe.learningRate * warmup * Math.min(1, recipe.clip / (norm + 1e-6));
      for (const { data, mainGradient } of stage.parameters) descend(data, mainGradient, rate);
      const [expectedLoss, expectedNorm] = [expected.losses[step]!, expected.gradientNorms[step]!];
      expect(Math.abs(loss - expectedLoss) / expectedLoss, `step ${step}`).toBeLessThan(1e-5);
      expect(Math.abs(norm - expectedNorm) / expectedNorm, `step ${step}`).toBeLessThan(1e-4);
    });
    // the recipe learns
    expect(expected.losses[0]! - expected.losses.at(-1)!).toBeGreaterThan(0.5);
    storage.dispose();
    stage.dispose();
    expect(numLiveTensors()).toBe(live);
  },
);
