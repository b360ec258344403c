import { numLiveTensors } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import { describe, expect, it } from 'vitest';
import {
  GptLanguageModel,
  type GptModelConfiguration,
  GptStage,
  numLossTokens,
  numParameters,
  type TokenBatch,
} from '../src/index.js';
import { PoisoningKeeper } from './support/poisoning-keeper.js';
import { layerNormOfHeads, llamaVariants, otherVariants, softCaps } from './support/small-llama.js';
import { StageUnderTest } from './support/stage-under-test.js';
import {
  buildGpt,
  computeStep,
  type ParameterGradient,
  type StepOptions,
  smallBatch,
  smallGpt,
} from './tensor-parallel/small-gpt.js';

const llama: GptModelConfiguration = { ...smallGpt, ...llamaVariants };
const makeStage = (model: GptModelConfiguration): GptStage =>
  new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
const listShapes = (model: GptModelConfiguration): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(makeStage(model).parameters.map(({ name, globalShape }) => [name, globalShape]));

describe('the parameters of a Llama', () => {
  it('are the parameters of its blocks, in the packed layout of groups', () => {
    const { numLayers: _, ...one } = llama;
    expect(listShapes({ ...one, numLayers: 1 })).toEqual({
      'embedding.word_embeddings.weight': [96, 32],
      'decoder.layers.0.input_layernorm.weight': [32],
      'decoder.layers.0.self_attention.linear_qkv.weight': [4, 4, 6, 32],
      'decoder.layers.0.self_attention.linear_qkv.bias': [4, 4, 6],
      'decoder.layers.0.self_attention.linear_proj.weight': [32, 48],
      'decoder.layers.0.pre_mlp_layernorm.weight': [32],
      // gates, then values
      'decoder.layers.0.mlp.linear_fc1.weight': [2, 40, 32],
      'decoder.layers.0.mlp.linear_fc2.weight': [32, 40],
      'decoder.final_layernorm.weight': [32],
      'output_layer.weight': [96, 32],
    });
    expect(listShapes({ ...smallGpt, ...otherVariants })).toMatchObject({
      'decoder.layers.1.self_attention.q_layernorm.weight': [6],
      'decoder.layers.1.self_attention.k_layernorm.weight': [6],
      'decoder.layers.1.mlp.linear_fc1.weight': [40, 32],
    });
    const ofLayerNorm = listShapes({ ...smallGpt, ...layerNormOfHeads });
    for (const of of ['q_layernorm.weight', 'q_layernorm.bias', 'k_layernorm.weight', 'k_layernorm.bias'])
      expect(ofLayerNorm[`decoder.layers.1.self_attention.${of}`], of).toEqual([6]);
  });

  it('are counted', () => {
    // 2 h (heads + groups) d with biases, three matrices of the feed-forward network, two norms
    const layer = 2 * 32 * (8 + 4) * 6 + 4 * 4 * 6 + 3 * 32 * 40 + 2 * 32;
    expect(numParameters(llama)).toBe(2 * layer + 2 * 96 * 32 + 32);
    expect(numParameters(smallGpt)).toBe(
      2 * (4 * 32 ** 2 + 4 * 32 + 2 * 32 * 64 + 64 + 32 + 4 * 32) + 96 * 32 + 16 * 32 + 2 * 32,
    );
  });

  it('have biases where they are asked for', () => {
    const biases = (model: Partial<GptModelConfiguration>): number =>
      Object.keys(listShapes({ ...smallGpt, ...model })).filter((name) => /linear_.*bias/.test(name)).length;
    expect(biases({})).toBe(2 * 4);
    expect(biases({ addBiasLinear: false })).toBe(0);
    expect(biases({ addBiasLinear: false, addQkvBias: true })).toBe(2);
    expect(biases({ addQkvBias: true })).toBe(2 * 4);
  });

  it('are refused where heads and groups do not fit, with those that do', () => {
    const refusal = (model: Partial<GptModelConfiguration>) => () => makeStage({ ...llama, ...model });
    expect(refusal({ numQueryGroups: 3 })).toThrow(
      expect.objectContaining({ code: 'MTL_ATTENTION_HEADS', expected: '2 or 4' }),
    );
    expect(refusal({ numAttentionHeads: 5, groupQueryAttention: false, kvChannels: undefined })).toThrow(
      expect.objectContaining({ code: 'MTL_ATTENTION_HEADS', expected: '4 or 8' }),
    );
  });
});

type Model = NonNullable<StepOptions['model']>;

/** Runs a step of a model after `set` has set its parameters. */
function runStep(model: Model, set: (stage: GptStage) => void) {
  const built = buildGpt({ model });
  set(built.stage);
  const result = computeStep(built, {});
  built.dispose();
  return result;
}

describe('grouped-query attention', () => {
  const grouped: Model = { numAttentionHeads: 8, groupQueryAttention: true, numQueryGroups: 2 };
  const [queries, size] = [4, 4];

  /**
   * Converts [G, R + 2, D, ...] to [A, 3, D, ...]: each head gets its query and the key and value of its
   * group.
   */
  function repeated(values: Float32Array, inner: number): Float32Array {
    const head = size * inner;
    const at = (group: number, part: number): Float32Array => {
      const start = (group * (queries + 2) + part) * head;
      return values.subarray(start, start + head);
    };
    const parts = [0, 1].flatMap((group) =>
      Array.from({ length: queries }, (_, query) => [
        at(group, query),
        at(group, queries),
        at(group, queries + 1),
      ]).flat(),
    );
    return Float32Array.from(parts.flatMap((part) => [...part]));
  }

  it('is attention of heads whose keys and values are repeated', () => {
    const groups = new Map<string, Float32Array>();
    const actual = runStep(grouped, ({ parameters }) => {
      for (const { name, data } of parameters) groups.set(name, data.read<'float32'>());
    });
    const expected = runStep({ numAttentionHeads: 8 }, ({ parameters }) => {
      for (const { name, data } of parameters) {
        const values = groups.get(name)!;
        data.write(name.includes('linear_qkv') ? repeated(values, values.length / (2 * 6 * 4)) : values);
      }
    });
    // float32 rounding of sums in another order
    expect(Math.abs(actual.loss - expected.loss)).toBeLessThan(2e-6);
    const findGradient = ({ gradients }: typeof actual, name: string): ParameterGradient =>
      gradients.find((gradient) => gradient.name === name)!;
    const key = 'decoder.layers.0.self_attention.linear_qkv.weight';
    const [shared, own] = [findGradient(actual, key).values, findGradient(expected, key).values];
    const width = size * 32;
    const norm = Math.hypot(...shared);
    for (let index = 0; index < width; index++) {
      // the gradient of the second group's value is the sum over the four heads of the group
      const sum = [4, 5, 6, 7].reduce((total, head) => total + own[(head * 3 + 2) * width + index]!, 0);
      expect(Math.abs(shared[(6 + 5) * width + index]! - sum)).toBeLessThan(1e-6 * norm);
      // the gradient of the second group's third query is the gradient of the query of head 6
      expect(Math.abs(shared[(6 + 2) * width + index]! - own[6 * 3 * width + index]!)).toBeLessThan(
        1e-6 * norm,
      );
    }
  });
});

it('sees the positions of a window, and its own', () => {
  const model: Model = { windowSize: '2,0', numLayers: 1, hiddenDropout: 0, attentionDropout: 0 };
  const last = (variants: Model, first: number): number => {
    const { stage, dispose } = buildGpt({ model: variants });
    const tokens = Int32Array.of(first, 4, 5, 6);
    const losses = new GptLanguageModel(stage).tokenLosses({ tokens, labels: tokens, batchSize: 1 });
    dispose();
    return losses.at(-1)!;
  };
  expect(last(model, 1)).toBe(last(model, 2));
  for (const windowSize of ['3,0', undefined]) {
    expect(last({ ...model, windowSize }, 1)).not.toBe(last({ ...model, windowSize }, 2));
  }
});

it.each([
  ['a Llama', llamaVariants],
  ['a Llama with other variants', otherVariants],
  ['layer norm of queries and keys', layerNormOfHeads],
  ['a model without positions', { positionEmbeddingType: 'none' }],
  ['soft caps', { ...softCaps, initMethodStd: 0.3 }],
] as const)('generates with a cache what training computes: %s', (_, model) => {
  const before = numLiveTensors();
  const built = buildGpt({ model });
  const languageModel = new GptLanguageModel(built.stage);
  const tokens = Int32Array.of(3, 14, 15, 92 % 90, 65, 35, 8);
  const losses = languageModel.tokenLosses({ tokens, labels: tokens.toReversed(), batchSize: 1 });
  for (const promptLength of [1, 3, 7]) {
    const cache = languageModel.newCache({ batchSize: 2, capacity: 8 });
    for (let end = promptLength; end <= tokens.length; end++) {
      const sequences = [{ slot: 1, tokens: tokens.subarray(end === promptLength ? 0 : end - 1, end) }];
      const logits = languageModel.forward({ cache, sequences });
      const logSum = Math.log(logits.reduce((sum, value) => sum + Math.exp(value), 0));
      const loss = logSum - logits[tokens.at(-end)!]!;
      // float32 rounding of losses around 5
      expect(Math.abs(loss - losses[end - 1]!), `${promptLength}, ${end}`).toBeLessThan(2e-5);
    }
    cache.dispose();
  }
  built.dispose();
  expect(numLiveTensors()).toBe(before);
});

it.each([
  ['a GPT with a tied head', {}],
  ['a Llama', llamaVariants],
] as const)('generates where values are present only while their units are used: %s', (_, model) => {
  const { stage, dispose } = buildGpt({ model });
  const languageModel = new GptLanguageModel(stage);
  const generate = (): Float32Array[] => {
    const cache = languageModel.newCache({ batchSize: 1, capacity: 4 });
    const logits = [[3, 14, 15], [65]].map((tokens) =>
      languageModel.forward({ cache, sequences: [{ slot: 0, tokens: Int32Array.from(tokens) }] }),
    );
    cache.dispose();
    return logits;
  };
  const expected = generate();
  const keeper = new PoisoningKeeper(stage.parameters, stage.units);
  expect(generate()).toEqual(expected);
  expect(keeper.numAcquired).toBeGreaterThanOrEqual(2 * stage.parameters.length);
  dispose();
});

function makeLossFactors(batch: TokenBatch) {
  return { lm_loss: 1 / numLossTokens(batch) };
}

it.each([
  ['a Llama', llamaVariants],
  ['a Llama with other variants', otherVariants],
  ['layer norm of queries and keys', layerNormOfHeads],
  ['soft caps', softCaps],
])('has gradients that match central differences in float64, dropout and documents included: %s', (_, of) => {
  const model = { ...smallGpt, ...of, numLayers: 1, initMethodStd: 0.3 };
  const stage = new GptStage({ model, device: 'reference', dtype: 'float64', seed: 1 });
  const built = new StageUnderTest({
    stage,
    device: 'reference',
    dtype: 'float64',
    makeCalls: (batches: readonly TokenBatch[]) =>
      batches.map((batch, microBatch) => ({ microBatch, batch, lossFactors: makeLossFactors(batch) })),
    takeLoss: (tested, microBatch) => {
      const [{ losses, weights, dispose }] = tested.takeLosses(microBatch) as [StageLoss];
      const factors = weights.toArray();
      const total = losses.toArray().reduce((sum, loss, index) => sum + loss * factors[index]!, 0);
      dispose();
      return total;
    },
  });
  built.expectCentralDifferences(smallBatch());
  built.dispose();
});

describe('rotary position embeddings', () => {
  const model: Model = { ...llamaVariants, hiddenDropout: 0, attentionDropout: 0 };
  const second = Int32Array.of(7, 21, 3, 77);

  /** Returns the losses of tokens, in which attention sees nothing before `start`. */
  function computeLosses(variants: Model, tokens: Int32Array, start: number): number[] {
    const { stage, dispose } = buildGpt({ model: variants });
    const batch: TokenBatch = {
      ...smallBatch(),
      batchSize: 1,
      sequenceLength: tokens.length,
      tokens,
      labels: tokens.toReversed(),
      lossMask: new Float32Array(tokens.length).fill(1),
      positionIds: Int32Array.from(tokens, (_, index) => index),
      sampleNumbers: Float64Array.of(0),
      keyStart: Int32Array.from(tokens, (_, index) => (index < start ? 0 : start)),
    };
    stage.evaluate({ microBatch: 0, batch, lossFactors: makeLossFactors(batch) });
    const [loss] = stage.takeLosses(0);
    const losses = loss!.losses.toArray();
    loss!.dispose();
    dispose();
    return losses;
  }

  it('make attention depend on distances only', () => {
    const after = computeLosses(model, Int32Array.of(...second, ...second), 4).slice(4);
    const alone = computeLosses(model, second, 0);
    // float32 rounding of losses around 5
    for (const [index, loss] of after.entries()) {
      expect(Math.abs(loss - alone[index]!)).toBeLessThan(1e-5);
    }
  });

  it('tell orders of tokens apart, which one layer without positions does not', () => {
    // the last token sees the same two tokens before it, in another order; labels are the first tokens
    const last = (variants: Model, ...before: readonly number[]): number =>
      computeLosses({ ...variants, numLayers: 1 }, Int32Array.of(4, ...before, 1), 0).at(-1)!;
    const differs = (variants: Model): number => Math.abs(last(variants, 5, 9) - last(variants, 9, 5));
    expect(differs(model)).toBeGreaterThan(1e-3);
    expect(differs({ ...model, positionEmbeddingType: 'none' })).toBeLessThan(2e-6);
  });

  // wavelengths beyond 8192 exist with this base
  const whole = { rotaryPercent: 1, rotaryBase: 1e8 };
  it.each<[what: string, variants: object, usual?: object]>([
    ['base', { rotaryBase: 100 }],
    ['share', { rotaryPercent: 0.4 }],
    ['pairs', { rotaryInterleaved: true }],
    ['interpolation', { rotarySeqLenInterpolationFactor: 4 }],
    ['scaling', { ...whole, useRopeScaling: true }, whole],
    [
      'factor of scaling',
      { ...whole, useRopeScaling: true, ropeScalingFactor: 2 },
      { ...whole, useRopeScaling: true },
    ],
  ])('have a %s', (_, variants, usualVariants = {}) => {
    const tokens = Int32Array.of(5, 9, 1, 4, 2, 8, 5, 7);
    const [usual, changed] = [usualVariants, variants].map((more) =>
      computeLosses({ ...model, ...more }, tokens, 0),
    );
    expect(usual).not.toEqual(changed);
  });
});
