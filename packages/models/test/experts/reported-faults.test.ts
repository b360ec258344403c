import { allocateParameters, initializeParameter, type Parameter } from '@mtl/autograd';
import { setNumThreads } from '@mtl/kernels';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type GptModelConfiguration, GptStage, numLossTokens, type Recomputation } from '../../src/index.js';
import { smallBatch, smallGpt } from '../tensor-parallel/small-gpt.js';

// faults that users of other programs have reported: docs/verification/reports-about-experts.md

beforeAll(() => setNumThreads(1));

const opened: { dispose(): void }[] = [];
afterEach(() => {
  for (const each of opened.splice(0)) each.dispose();
});

const sparse: GptModelConfiguration = {
  ...smallGpt,
  hiddenDropout: 0,
  attentionDropout: 0,
  addBiasLinear: false,
  numExperts: 4,
  moeFfnHiddenSize: 24,
};
const biased = { moeRouterScoreFunction: 'sigmoid', moeRouterEnableExpertBias: true } as const;

function open(model: Partial<GptModelConfiguration>, recomputation?: Recomputation) {
  const common = { device: 'cpu', dtype: 'float32', seed: 3 } as const;
  const stage = new GptStage({
    ...common,
    model: { ...sparse, ...model },
    ...(recomputation && { recomputation }),
  });
  const storage = allocateParameters(stage.parameters, {
    device: 'cpu',
    dtype: 'float32',
    mainGradients: true,
  });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 3);
  opened.push(stage, storage);
  return stage;
}

const named = (stage: GptStage, name: string): Parameter =>
  stage.parameters.find((parameter) => parameter.name.endsWith(name))!;

/** Returns the sum of each loss over layers, and the gradients after the pass. */
function pass(
  stage: GptStage,
  { factors = {}, between = () => {} }: { factors?: Record<string, number>; between?: () => void } = {},
): Readonly<Record<string, number>> {
  const batch = smallBatch();
  const lossFactors = Object.fromEntries([...stage.layerLosses].map((name) => [name, factors[name] ?? 0]));
  const main = factors.lm_loss ?? 1 / numLossTokens(batch);
  stage.forward({ microBatch: 0, batch, lossFactors: { ...lossFactors, lm_loss: main } });
  between();
  stage.backwardInput({ microBatch: 0, weights: true });
  const sums: Record<string, number> = {};
  for (const loss of stage.takeLosses(0)) {
    const sum = loss.losses.toArray().reduce((total, value) => total + value, 0);
    sums[loss.name] = (sums[loss.name] ?? 0) + sum;
    loss.dispose();
  }
  return sums;
}

const routerGradient = (stage: GptStage, layer: number): readonly number[] =>
  named(stage, `${layer}.mlp.router.weight`).mainGradient.toArray();

describe('balancing losses', () => {
  it.each(['aux_loss', 'seq_aux_loss'] as const)('reach the router, by their weight: %s', (type) => {
    const name = type === 'aux_loss' ? 'load_balancing_loss' : 'seq_load_balancing_loss';
    const model = { moeRouterLoadBalancingType: [type], moeAuxLossCoeff: [1] };
    const computeGradient = (factor: number, lm?: number): readonly number[] => {
      const stage = open(model);
      pass(stage, { factors: { [name]: factor, ...(lm !== undefined && { lm_loss: lm }) } });
      return routerGradient(stage, 1);
    };
    const [without, once, twice] = [0, 0.5, 1].map((factor) => computeGradient(factor));
    const alone = computeGradient(1, 0);
    expect(Math.hypot(...alone)).toBeGreaterThan(1e-3);
    const added = (gradient: readonly number[]) => gradient.map((value, index) => value - without![index]!);
    // float32 rounding of a sum with the gradient of the text
    added(twice!).forEach((value, index) => {
      expect(value).toBeCloseTo(alone[index]!, 5);
    });
    added(once!).forEach((value, index) => {
      expect(value).toBeCloseTo(alone[index]! / 2, 5);
    });
  });

  it('are counted for each layer: layers that prefer opposite experts do not even out', () => {
    const stage = open({ ...biased, moeRouterLoadBalancingType: ['aux_loss'], moeAuxLossCoeff: [1] });
    const { hiddenSize } = sparse;
    // all scores are 0.5; among equal scores the lower experts are chosen
    for (const layer of [0, 1]) {
      named(stage, `${layer}.mlp.router.weight`).data.write(new Float32Array(4 * hiddenSize));
    }
    const even = pass(stage).load_balancing_loss!;
    expect(even).toBeCloseTo(2, 5);
    // the first layer prefers experts 0 and 1, the second 2 and 3, by a feature that all tokens share
    const largest = 50;
    for (const [layer, preferred] of [
      [0, [0, 1]],
      [1, [2, 3]],
    ] as const) {
      const norm = named(stage, `${layer}.pre_mlp_layernorm.bias`).data;
      norm.write(new Float32Array(hiddenSize).fill(largest));
      const weight = new Float32Array(4 * hiddenSize).fill(-1 / hiddenSize);
      for (const expert of preferred) {
        weight.fill(1 / hiddenSize, expert * hiddenSize, (expert + 1) * hiddenSize);
      }
      named(stage, `${layer}.mlp.router.weight`).data.write(weight);
    }
    // of each layer two experts with half of the scores each: E / k = 2
    expect(pass(stage).load_balancing_loss!).toBeCloseTo(4, 3);
  });
});

describe('a second pass of recomputed layers', () => {
  it.each<[string, Recomputation]>([
    ['whole layers', { granularity: 'full', method: 'uniform', numLayers: 1 }],
    ['experts', { granularity: 'selective', modules: ['moe'] }],
  ])('takes the experts of the first, whatever it would choose itself: %s', (_, recomputation) => {
    const stage = open({ ...biased, moeRouterLoadBalancingType: ['none'] }, recomputation);
    const bias = named(stage, '0.mlp.router.expert_bias').data;
    bias.write(Float32Array.of(9, 9, 0, 0));
    // changes the choice as rounding could, but for all tokens
    pass(stage, { between: () => bias.write(Float32Array.of(0, 0, 9, 9)) });
    const { mainGradient, size } = named(stage, '0.mlp.experts.linear_fc2.weight');
    const values = mainGradient.toArray();
    const norms = [0, 1, 2, 3].map((expert) =>
      Math.hypot(...values.slice((expert * size) / 4, ((expert + 1) * size) / 4)),
    );
    expect(norms.slice(2)).toEqual([0, 0]);
    expect(Math.min(...norms.slice(0, 2))).toBeGreaterThan(0);
    const numRows = smallBatch().labels.length;
    expect(stage.expertLoads[0]!.take()).toEqual([numRows, numRows, 0, 0]);
  });
});
