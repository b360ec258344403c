import { describe, expect, it } from 'vitest';
import { crossEntropyForwardBackward, type Device, Tensor, tidy } from '../src/index.js';
import { refusal } from './support/refusals.js';
import { operations, wrongIndices } from './support/wrong-indices.js';

describe.each(['cpu', 'reference'] as const)('an index out of range on device %s', (device) => {
  describe.each(Object.keys(operations))('%s', (name) => {
    it.each(wrongIndices)('is refused: %d', (wrong) => {
      expect(refusal(() => operations[name]!(wrong, device))).toMatch(
        new RegExp(`^MTL_INDEX: \\w+: (ids|labels|positions)\\[2\\] is ${wrong}, expected 0 to 6$`),
      );
    });

    it('is told from the first and the last of the range', () => {
      for (const index of [0, 6])
        expect(operations[name]!(index, device)).toHaveLength(name === 'embedding_backward' ? 7 : 4);
    });
  });
});

/** Computes losses and gradient over three classes; the logits of every row are 1, 2 and 3. */
function crossEntropy(
  labels: readonly number[],
  options: { device: Device; weights: readonly number[]; ignoreIndex?: number; firstRow?: number },
): { losses: number[]; gradient: number[] } {
  const { device, weights, ...rest } = options;
  const numRows = labels.length;
  return tidy(() => {
    const perRow = (values: readonly number[]): Tensor =>
      Tensor.from(values, { shape: [numRows], dtype: 'float32', device });
    const logits = Tensor.from(
      labels.flatMap(() => [1, 2, 3]),
      { shape: [numRows, 3], dtype: 'float32', device },
    );
    const logitGradient = Tensor.empty(logits);
    const loss = perRow(weights);
    crossEntropyForwardBackward({
      logitGradient,
      loss,
      logits,
      weights: perRow(weights),
      labels: Tensor.from(labels, { shape: [numRows], dtype: 'int32', device }),
      rowMaximum: perRow(weights),
      rowSum: perRow(weights),
      labelLogit: perRow(weights),
      numColumns: 3,
      ...rest,
    });
    return { losses: loss.toArray(), gradient: logitGradient.toArray() };
  });
}

describe.each(['cpu', 'reference'] as const)('labels that do not count on device %s', (device) => {
  it('have no loss and no gradient where they are ignored, and the mean is as in PyTorch', () => {
    // torch.nn.functional.cross_entropy(logits, [2, -100, 0], ignore_index=-100) is 1.4076059644443804
    const weights = [0.5, 0.5, 0.5];
    const { losses, gradient } = crossEntropy([2, -100, 0], { device, weights, ignoreIndex: -100 });
    // float32: a few roundings of numbers around 1
    expect(losses.reduce((sum, value, row) => sum + value * weights[row]!, 0)).toBeCloseTo(1.4076059644, 6);
    expect(losses[1]).toBe(0);
    expect(gradient.slice(3, 6)).toEqual([0, 0, 0]);
    // the gradient of that mean by torch.autograd
    const expected = [0.04501529, 0.12236424, -0.16737953, 0, 0, 0, -0.45498471, 0.12236424, 0.33262047];
    gradient.forEach((value, index) => void expect(value).toBeCloseTo(expected[index]!, 6));
  });

  it('may be a class that is ignored', () => {
    const { losses } = crossEntropy([2, 1], { device, weights: [1, 1], ignoreIndex: 1 });
    expect(losses[0]).toBeGreaterThan(0);
    expect(losses[1]).toBe(0);
  });

  it('may be anything where their weight is 0', () => {
    const { losses, gradient } = crossEntropy([2, -1], { device, weights: [1, 0] });
    expect([losses[1], ...gradient.slice(3)]).toEqual([0, 0, 0, 0]);
  });

  it('are refused by another ignored label, with their row of all', () => {
    const options = { device, weights: [1, 1], ignoreIndex: -1, firstRow: 40 };
    expect(refusal(() => crossEntropy([2, -100], options))).toMatch(/labels\[41\] is -100, expected 0 to 2$/);
  });

  it.each([0.5, 2 ** 40, Number.POSITIVE_INFINITY])(
    'are refused where %d is to be ignored',
    (ignoreIndex) => {
      const options = { device, weights: [1], ignoreIndex };
      expect(refusal(() => crossEntropy([2], options))).toMatch(
        /^MTL_ARGUMENT: .* ignoreIndex .*, expected a whole number/,
      );
    },
  );
});
