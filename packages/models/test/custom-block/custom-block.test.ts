import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import { BertStage, bertBlock, feedForwards, GptStage, gptBlock, norms } from '../../src/index.js';
import { smallBert } from '../tensor-parallel/small-bert.js';
import { smallGpt } from '../tensor-parallel/small-gpt.js';
import { ownFeedForward, ownNorm } from './own-kinds.js';
import { type OwnKindsResult, type TrainOwnKinds, trainOwnKinds } from './train-own-kinds.js';

const layouts: readonly Omit<TrainOwnKinds, 'groups'>[] = [
  { sequenceParallel: false, recompute: false },
  { sequenceParallel: true, recompute: false },
  { sequenceParallel: true, recompute: true },
  // the losses of layers in the middle: on the second of four stages, and on the third
  { sequenceParallel: false, recompute: false, lossLayers: [1, 2] },
  { sequenceParallel: true, recompute: true, lossLayers: [1, 2] },
  // every second layer is one of GPT-2's, with heads of another size
  { sequenceParallel: true, recompute: true, standardLayers: [0, 2] },
];

describe('a norm and a feed-forward network that only this test registers', () => {
  let whole: OwnKindsResult;
  let withLosses: OwnKindsResult;
  let alternating: OwnKindsResult;
  let ranks: OwnKindsResult[][];

  beforeAll(async () => {
    whole = trainOwnKinds({ groups: {}, sequenceParallel: false, recompute: false });
    withLosses = trainOwnKinds({ ...layouts[0]!, groups: {}, lossLayers: [1, 2] });
    alternating = trainOwnKinds({ ...layouts[0]!, groups: {}, standardLayers: [0, 2] });
    ranks = await runInMemoryRanks<OwnKindsResult[]>({
      worldSize: 4,
      ...rankThreads(new URL('./ranks/own-kinds-on-ranks.ts', import.meta.url)),
      argument: layouts,
      timeoutMs: 60_000,
    });
  });

  it('build a model with their parameters', () => {
    const layer = whole.parameterNames.filter((name) => name.startsWith('decoder.layers.1.'));
    expect(layer.map((name) => name.slice('decoder.layers.1.'.length))).toEqual([
      'input_layernorm.weight',
      'self_attention.linear_qkv.weight',
      'self_attention.linear_proj.weight',
      'pre_mlp_layernorm.weight',
      'mlp.linear_fc1.weight',
      'mlp.linear_fc2.weight',
    ]);
    expect(whole.parameterNames).not.toContain('decoder.final_layernorm.bias');
  });

  it('compute something else than the kinds of this package, and learn', () => {
    const { losses } = trainOwnKinds({
      groups: {},
      sequenceParallel: false,
      recompute: false,
      standardLayers: [0, 1, 2, 3],
    });
    expect(Math.abs(losses[0]! - whole.losses[0]!)).toBeGreaterThan(0.01);
    expect(whole.losses.at(-1)).toBeLessThan(whole.losses[0]! - 0.5);
  });

  it.each(layouts.map((layout, index) => ({ ...layout, index })))(
    'train on two stages of two ranks as in one process: $sequenceParallel, $recompute, $lossLayers, $standardLayers',
    ({ index, lossLayers, standardLayers }) => {
      const ofLayers = standardLayers === undefined ? whole : alternating;
      const expected = lossLayers === undefined ? ofLayers : withLosses;
      const curves = ranks.map((results) => results[index]!.losses).filter(({ length }) => length > 0);
      expect(curves.length).toBe(2);
      for (const curve of curves) {
        curve.forEach((loss, step) => {
          // float32 rounding of sums in another order, carried through six steps: measured 4e-6
          expect(Math.abs(loss - expected.losses[step]!), `step ${step}`).toBeLessThan(2e-5);
        });
      }
      for (const { activationLosses } of ranks.map((results) => results[index]!)) {
        activationLosses.forEach((loss, step) => {
          // relative to the loss, because losses of activations are around 1
          const of = expected.activationLosses[step]!;
          expect(Math.abs(loss - of), `step ${step}`).toBeLessThanOrEqual(2e-5 * of);
        });
      }
    },
  );

  it('build a model whose layers are not alike, each with its parameters', () => {
    const has = (name: string) => alternating.parameterNames.includes(name);
    const biases = [0, 1, 2, 3].map((layer) => has(`decoder.layers.${layer}.self_attention.linear_qkv.bias`));
    expect(biases).toEqual([true, false, true, false]);
    // the last layer's norm is the norm before the head
    expect(has('decoder.final_layernorm.bias')).toBe(false);
    const all = [whole, alternating].map(({ losses }) => losses[0]!);
    expect(Math.abs(all[0]! - all[1]!)).toBeGreaterThan(0.001);
  });

  it('learns from losses in the middle of the model, by their weights', () => {
    const { losses, activationLosses } = withLosses;
    expect(activationLosses.at(-1)).toBeLessThan(0.9 * activationLosses[0]!);
    // the first step has the same weights
    expect(losses[0]).toBe(whole.losses[0]);
    expect(Math.abs(losses.at(-1)! - whole.losses.at(-1)!)).toBeGreaterThan(1e-3);
    const { activationLosses: without } = whole;
    expect(without).toEqual(without.map(() => 0));
  });
});

describe('kinds', () => {
  const common = { model: smallGpt, device: 'cpu', dtype: 'float32', seed: 1 } as const;

  it.each([
    ['norm', { norm: { kind: 'batch-norm', epsilon: 1e-5 } }, 'layer-norm, rms-norm, root-mean-square'],
    ['attention', { attention: { ...gptBlock(smallGpt).attention, kind: 'linear' } }, 'self-attention'],
    [
      'feed-forward network',
      { feedForward: { ...ownFeedForward, kind: 'maxout' } },
      'gelu, swiglu, squared-relu, clamped-glu, mixture-of-experts, power-relu',
    ],
  ])('rejects an unknown %s with those that are registered', (what, part, expected) => {
    const block = { ...gptBlock(smallGpt), ...part };
    expect(() => new GptStage({ ...common, block })).toThrow(
      expect.objectContaining({
        code: 'MTL_BLOCK_KIND',
        message: expect.stringContaining(`unknown ${what}`) as string,
        expected,
      }),
    );
  });

  it('rejects layers that do not fit together', () => {
    const block = (layer: number) => ({ ...gptBlock(smallGpt), ...(layer === 1 && { hiddenSize: 20 }) });
    expect(() => new GptStage({ ...common, block })).toThrow(
      expect.objectContaining({
        code: 'MTL_BLOCK_KIND',
        message: "layer 1 has a hidden size of 20 and norms placed 'pre'",
      }),
    );
  });

  it('rejects a window in a model without a causal mask', () => {
    const standard = bertBlock(smallBert);
    const block = (layer: number) =>
      layer === 0 ? standard : { ...standard, attention: { ...standard.attention, windowSize: 6 } };
    expect(() => new BertStage({ ...common, model: smallBert, block })).toThrow(
      expect.objectContaining({
        code: 'MTL_BLOCK_KIND',
        message: 'attention of layer 1 has a window of 6 tokens before its own',
      }),
    );
  });

  it('rejects a kind that is registered already', () => {
    const factory = (): never => {
      throw new Error('is not called');
    };
    for (const register of [
      () => norms.register(ownNorm.kind, factory),
      () => feedForwards.register('gelu', factory),
    ]) {
      expect(register).toThrow(expect.objectContaining({ code: 'MTL_BLOCK_KIND' }));
    }
  });
});
