import { afterAll, describe, expect, it } from 'vitest';
import {
  biasGeluBackward,
  biasGeluForward,
  crossEntropyBackward,
  crossEntropyStatistics,
  hostInformation,
  layerNormForward,
  setInstructionSet,
  Tensor,
  tidy,
} from '../src/index.js';

// A NaN must reach the loss, where training stops for it; clamping inside an exponential would turn it into a
// number.
const width = 37;

afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

describe.each(hostInformation().usableInstructionSets)('%s kernels', (level) => {
  // in a whole vector and in the rest of a row
  describe.each([3, 36])('with a NaN in column %d', (column) => {
    it.each(['float32', 'bfloat16', 'float16'] as const)('%s: stays a NaN', (dtype) => {
      setInstructionSet(level);
      tidy(() => {
        const values = Array.from({ length: 2 * width }, (_, index) =>
          index === column ? Number.NaN : 0.1 * index,
        );
        const input = Tensor.from(values, { shape: [2, width], dtype });
        const output = Tensor.empty(input);
        const perRow = (): Tensor => Tensor.from([1, 1], { shape: [2], dtype: 'float32' });

        for (const kind of ['tanh', 'erf'] as const) {
          biasGeluForward({ output, input, kind });
          expect(output.toArray().findIndex(Number.isNaN)).toBe(column);
          biasGeluBackward({ inputGradient: output, outputGradient: input, input, kind });
          expect(output.toArray().findIndex(Number.isNaN)).toBe(column);
        }

        const weight = Tensor.from(Array<number>(width).fill(1), { shape: [width], dtype });
        const moments = { mean: perRow(), rstd: perRow() };
        layerNormForward({ output, input, weight, bias: weight, epsilon: 1e-5, ...moments });
        expect(output.toArray().map(Number.isNaN)).toEqual(values.map((_, index) => index < width));

        const labels = Tensor.from([1, 2], { shape: [2], dtype: 'int32' });
        const statistics = { rowMaximum: perRow(), rowSum: perRow(), labelLogit: perRow() };
        const inputs = { logits: input, labels, numColumns: width };
        crossEntropyStatistics({ ...statistics, ...inputs });
        const loss = perRow();
        crossEntropyBackward({ ...statistics, ...inputs, loss, weights: perRow() });
        expect(loss.toArray().map(Number.isNaN)).toEqual([true, false]);
      });
    });
  });
});
