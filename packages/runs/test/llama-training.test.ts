import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Parameter } from '@mtl/autograd';
import { SafetensorsFile } from '@mtl/checkpoint';
import { numLiveTensors } from '@mtl/kernels';
import {
  type GptModelConfiguration,
  GptStage,
  numLossTokens,
  sequenceFirst,
  type TokenBatch,
} from '@mtl/models';
import { Adamw, ModelOptimizer, ReplicatedStore } from '@mtl/optimizer';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { expect, it } from 'vitest';

const directory = fileURLToPath(new URL('../../formats/fixtures/llama-training', import.meta.url));

interface Curve {
  readonly losses: readonly number[];
  readonly gradientNorms: readonly number[];
}

type Name = 'llama' | 'qwen2' | 'qwen3';

/** The fixture that tooling/fixtures/llama.py wrote. */
const fixture = JSON.parse(readFileSync(`${directory}/training.json`, 'utf8')) as {
  readonly recipe: Readonly<
    Record<
      | 'learningRate'
      | 'warmup'
      | 'clip'
      | 'beta1'
      | 'beta2'
      | 'epsilon'
      | 'weightDecay'
      | 'batchSize'
      | 'sequenceLength',
      number
    >
  >;
  /** The tokens of each step [B, S + 1]. */
  readonly batches: readonly (readonly (readonly number[])[])[];
} & Readonly<Record<Name, Curve>>;

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

function makeBatch(rows: readonly (readonly number[])[]): TokenBatch {
  const { batchSize, sequenceLength } = fixture.recipe;
  const size = batchSize * sequenceLength;
  return sequenceFirst({
    batchSize,
    sequenceLength,
    tokens: Int32Array.from(rows.flatMap((row) => row.slice(0, -1))),
    labels: Int32Array.from(rows.flatMap((row) => row.slice(1))),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    keyStart: undefined,
  });
}

/** Returns the tensors of a file whose names begin with `prefix`, by the rest of their names. */
async function readTensors(name: Name, prefix: string): Promise<Map<string, Float32Array>> {
  const file = await SafetensorsFile.open(`${directory}/${name}.safetensors`);
  const tensors = new Map<string, Float32Array>();
  for (const tensor of [...file.tensors.keys()].filter((key) => key.startsWith(prefix))) {
    const bytes = Uint8Array.from(await file.read({ name: tensor }));
    tensors.set(tensor.slice(prefix.length), new Float32Array(bytes.buffer));
  }
  await file.close();
  return tensors;
}

/** Returns a model with the first weights of the fixture, and AdamW. */
function build(name: Name, initial: ReadonlyMap<string, Float32Array>) {
  const { beta1, beta2, epsilon, weightDecay, clip } = fixture.recipe;
  const stage = new GptStage({ model: models[name], device: 'cpu', dtype: 'float32', seed: 1 });
  const store = new ReplicatedStore(stage.parameters, { device: 'cpu', dtype: 'float32' });
  for (const range of store.ranges) {
    const view = store.master(range);
    view.write(padded(range.parameter, initial));
    view.dispose();
  }
  const optimizer = new ModelOptimizer([store], {
    optimizer: new Adamw({ beta1, beta2, epsilon }),
    weightDecay,
    clipGrad: clip,
  });
  optimizer.refreshModel();
  const dispose = (): void => {
    optimizer.dispose();
    stage.dispose();
  };
  return { stage, optimizer, dispose };
}

/** Returns the values of a parameter, padded with zeros as the vocabulary is. */
function padded({ name, size }: Parameter, tensors: ReadonlyMap<string, Float32Array>): Float32Array {
  const result = new Float32Array(size);
  result.set(tensors.get(name)!);
  return result;
}

function computeLoss(stage: GptStage, batch: TokenBatch): number {
  const factor = 1 / numLossTokens(batch);
  stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: factor } });
  stage.backwardInput({ microBatch: 0, weights: true });
  const [taken] = stage.takeLosses(0);
  const loss = factor * taken!.losses.toArray().reduce((sum, value) => sum + value, 0);
  taken!.dispose();
  return loss;
}

// Bounds of the design against PyTorch: 1e-5 for losses and gradients of step 1, 1e-4 for norms of gradients.
// A model with another computation shows in the first steps; in fast runs one of the three models takes all
// steps too.
it.each([
  ['llama', 100],
  ['qwen2', numberInRuns({ whole: 100, fast: 25 })],
  ['qwen3', numberInRuns({ whole: 100, fast: 25 })],
] as const)(
  "trains steps of AdamW as transformers' model does, from the same weights and batches: %s, %i",
  async (name, numSteps) => {
    const live = numLiveTensors();
    const initial = await readTensors(name, 'initial.');
    const gradients = await readTensors(name, 'gradient.');
    const { stage, optimizer, dispose } = build(name, initial);
    expect(stage.parameters.map((parameter) => parameter.name).sort()).toEqual([...initial.keys()].sort());
    const { recipe, batches, [name]: expected } = fixture;
    const differences = batches.slice(0, numSteps).map((rows, step) => {
      const loss = computeLoss(stage, makeBatch(rows));
      for (const parameter of step === 0 ? stage.parameters : []) {
        const reference = padded(parameter, gradients);
        const gradient = parameter.mainGradient.read<'float32'>();
        const distance = Math.hypot(...gradient.map((value, index) => value - reference[index]!));
        expect(distance, parameter.name).toBeLessThan(1e-5 * Math.hypot(...reference));
      }
      const learningRate = recipe.learningRate * Math.min(1, (step + 1) / recipe.warmup);
      const { gradientNorm } = optimizer.step({ learningRate });
      return {
        loss: Math.abs(loss / expected.losses[step]! - 1),
        norm: Math.abs(gradientNorm / expected.gradientNorms[step]! - 1),
      };
    });
    expect(differences).toHaveLength(numSteps);
    expect(Math.max(...differences.map(({ loss }) => loss))).toBeLessThan(1e-5);
    expect(Math.max(...differences.map(({ norm }) => norm))).toBeLessThan(1e-4);
    // the recipe learns
    expect(expected.losses[0]! - expected.losses.at(-1)!).toBeGreaterThan(2);
    dispose();
    expect(numLiveTensors()).toBe(live);
  },
);
