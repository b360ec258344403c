import { beforeAll, describe, expect, it } from 'vitest';
import {
  combineRows,
  dropOverCapacity,
  expertActivationForward,
  groupByExpert,
  groupedBiasForward,
  groupedMatmul,
  groupedSumRows,
  groupedWeightGradient,
  permuteRows,
  routerBackward,
  routerForward,
  synchronize,
  Tensor,
  tidy,
} from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { refusal } from '../support/refusals.js';

const { problem, title } = findGpu();
const device = 'cuda';
const floats = (size: number, shape: readonly number[]): Tensor =>
  Tensor.from(new Array<number>(size).fill(1), { shape, dtype: 'float32', device });
const integers = (values: readonly number[], shape: readonly number[]): Tensor =>
  Tensor.from(values, { shape, dtype: 'int32', device });

describe.skipIf(problem !== undefined)(`experts and offsets out of range on device cuda (${title})`, () => {
  beforeAll(() => openCuda());

  const withIndex: Readonly<Record<string, (wrong: number) => void>> = {
    experts: (wrong) =>
      groupByExpert({ experts: integers([0, 3, wrong, -1], [2, 2]), numExperts: 4 }).offsets.toArray(),
    'experts over capacity': (wrong) =>
      dropOverCapacity({
        experts: integers([0, 3, wrong, -1], [2, 2]),
        probabilities: floats(4, [2, 2]),
        numExperts: 4,
        capacity: 1,
      }).toArray(),
    positions: (wrong) =>
      combineRows({ rows: floats(4, [4, 1]), positions: integers([0, 3, wrong, -1], [2, 2]) }).toArray(),
    sources: (wrong) =>
      permuteRows({ input: floats(2, [2, 1]), sources: integers([0, 3, wrong, -1], [4]), topK: 2 }).toArray(),
  };

  it.each(
    Object.keys(withIndex).flatMap((name) => [-2, 4, 1_000_000_000].map((wrong) => [name, wrong] as const)),
  )('refuses %s when the result is read: %d', (name, wrong) => {
    tidy(() => {
      expect(refusal(() => withIndex[name]!(wrong))).toMatch(
        new RegExp(`^MTL_INDEX: \\w+: (experts|positions|sources)\\[2\\] is ${wrong}, expected -1 to 3$`),
      );
      withIndex[name]!(1);
    });
  });

  it('refuses chosen experts, whose row is NaN', () => {
    tidy(() => {
      const logits = floats(6, [2, 3]);
      const chosen = integers([0, 3, 1, 2], [2, 2]);
      const scoreFunction = 'softmax';
      const { probabilities } = routerForward({ logits, chosen, topK: 2, scoreFunction });
      expect(refusal(() => synchronize(device))).toMatch(
        /^MTL_INDEX: router_forward: chosen\[1\] is 3, expected 0 to 2$/,
      );
      expect(probabilities.toArray().map(Number.isNaN)).toEqual([true, true, false, false]);
      const probabilitiesGradient = floats(4, [2, 2]);
      const gradient = routerBackward({ probabilitiesGradient, logits, experts: chosen, scoreFunction });
      expect(refusal(() => synchronize(device))).toMatch(/^MTL_INDEX: router_backward: experts\[1\] is 3/);
      expect(gradient.toArray().map(Number.isNaN)).toEqual([true, true, true, false, false, false]);
    });
  });

  const withOffsets: Readonly<Record<string, (offsets: Tensor) => void>> = {
    grouped_matmul: (offsets) =>
      groupedMatmul({ input: floats(4, [4, 1]), weights: floats(2, [2, 1, 1]), offsets }).toArray(),
    grouped_weight_gradient: (offsets) =>
      groupedWeightGradient({
        outputGradient: floats(4, [4, 1]),
        input: floats(4, [4, 1]),
        offsets,
      }).toArray(),
    expert_activation_forward: (offsets) =>
      expertActivationForward({ input: floats(4, [4, 1]), offsets, activation: 'squaredRelu' }).toArray(),
    grouped_bias_forward: (offsets) =>
      groupedBiasForward({ input: floats(4, [4, 1]), bias: floats(2, [2, 1]), offsets }).toArray(),
    grouped_sum_rows: (offsets) => groupedSumRows({ input: floats(4, [4, 1]), offsets }).toArray(),
  };

  it.each(Object.keys(withOffsets))('refuses offsets of %s', (name) => {
    tidy(() => {
      for (const [values, what] of [
        [[1, 2, 3], 'offsets[0] is 1, expected 0 to 0'],
        [[0, -3, 4], 'offsets[1] is -3, expected 0 to 4'],
        [[0, 3, 2], 'offsets[2] is 2, expected 3 to 4'],
        [[0, 2, 1_000_000_000], 'offsets[2] is 1000000000, expected 2 to 4'],
      ] as const) {
        expect(refusal(() => withOffsets[name]!(integers(values, [3])))).toBe(`MTL_INDEX: ${name}: ${what}`);
      }
      withOffsets[name]!(integers([0, 2, 4], [3]));
    });
  });
});
