import { beforeAll, describe, expect, it } from 'vitest';
import { crossEntropyForwardBackward, synchronize, Tensor, tidy } from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { refusal } from '../support/refusals.js';
import { operations, wrongIndices } from '../support/wrong-indices.js';

const { problem, title } = findGpu();
const device = 'cuda';

describe.skipIf(problem !== undefined)(`an index out of range on device cuda (${title})`, () => {
  beforeAll(() => openCuda());

  describe.each(Object.keys(operations))('%s', (name) => {
    it.each(wrongIndices)('is refused when the result is read: %d', (wrong) => {
      expect(refusal(() => operations[name]!(wrong, device))).toMatch(
        new RegExp(`^MTL_INDEX: \\w+: (ids|labels|positions)\\[2\\] is ${wrong}, expected 0 to 6$`),
      );
    });

    it('is told from the first and the last of the range', () => {
      for (const index of [0, 6]) operations[name]!(index, device);
    });
  });

  it('makes loss and gradient NaN, is reported once, and also by waiting for the device', () => {
    tidy(() => {
      const perRow = (): Tensor => Tensor.from([1, 1], { shape: [2], dtype: 'float32', device });
      const logits = Tensor.from([1, 2, 3, 1, 2, 3], { shape: [2, 3], dtype: 'float32', device });
      const loss = perRow();
      const run = (labels: readonly number[]): void =>
        crossEntropyForwardBackward({
          logitGradient: logits,
          loss,
          logits,
          weights: perRow(),
          labels: Tensor.from(labels, { shape: [2], dtype: 'int32', device }),
          rowMaximum: perRow(),
          rowSum: perRow(),
          labelLogit: perRow(),
          numColumns: 3,
        });
      run([0, 3]);
      expect(refusal(() => synchronize(device))).toMatch(/^MTL_INDEX: .*labels\[1\] is 3, expected 0 to 2$/);
      expect(loss.toArray()[0]).toBeCloseTo(2.4076, 4);
      expect(loss.toArray()[1]).toBeNaN();
      expect(logits.toArray().map(Number.isNaN)).toEqual([false, false, false, true, true, true]);
      synchronize(device);
    });
  });
});
