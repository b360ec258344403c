import { describe, expect, it } from 'vitest';
import { add, attentionForward, cast, Tensor, tidy } from '../src/index.js';

const dtype = 'float32';

describe('strided views', () => {
  it('have strided views and rows of their own', () => {
    tidy(() => {
      const tensor = Tensor.from(
        Array.from({ length: 24 }, (_, index) => index),
        { shape: [4, 6], dtype },
      );
      const view = tensor.strided({ offset: 1, shape: [4, 2], strides: [6, 2] }); // 1 3, 7 9, 13 15, 19 21
      expect(view.strides).toEqual([6, 2]);
      expect(tensor.strides).toEqual([6, 1]);
      const readValues = (from: Tensor) => tidy(() => cast({ input: from, dtype: 'float32' }).toArray());
      const row = view.rows(1, 3);
      expect(readValues(row.strided({ shape: [2, 1], strides: [6, 1] }))).toEqual([7, 13]);
      expect(readValues(view.strided({ offset: 2, shape: [2, 3], strides: [6, 1] }))).toEqual([
        3, 4, 5, 9, 10, 11,
      ]);
      expect(readValues(view.strided({ shape: [4, 1], strides: [6, 1] }).reshape([2, 2, 1]))).toEqual([
        1, 7, 13, 19,
      ]);
      expect(() => view.strided({ offset: 1, shape: [4, 2], strides: [6, 2] })).toThrow(
        /from element 1 to 21 does not fit a tensor of 21 elements/,
      );
    });
  });

  it('are refused by everything else', () => {
    tidy(() => {
      const tensor = Tensor.zeros({ shape: [4, 6], dtype });
      const view = tensor.strided({ offset: 1, shape: [4, 2], strides: [6, 2] });
      const whole = Tensor.zeros({ shape: [4, 2], dtype });
      expect(() => add({ output: whole, left: whole, right: view })).toThrow(
        /add: right is a strided view, expected a contiguous tensor/,
      );
      const uses = [
        () => view.read(),
        () => view.write(new Float32Array(8)),
        () => view.zero(),
        () => view.reshape([8]),
      ];
      for (const use of uses) {
        expect(use).toThrow(
          expect.objectContaining({ code: 'MTL_SHAPE', message: expect.stringContaining('strided view') }),
        );
      }
    });
  });

  it('name what does not fit', () => {
    tidy(() => {
      const tensor = Tensor.zeros({ shape: [24], dtype });
      expect(() => tensor.strided({ shape: [2, 2], strides: [23, 1] })).toThrow(
        /from element 0 to 24 does not fit a tensor of 24 elements/,
      );
      expect(() => tensor.strided({ shape: [2, 2], strides: [0, 1] })).toThrow(/stride 0 of dimension 0/);
      expect(() => tensor.strided({ shape: [2, 2], strides: [1.5, 1] })).toThrow(/stride 0 of a view is 1.5/);
      expect(() => tensor.strided({ shape: [2, 2], strides: [1] })).toThrow(/the strides of a view are 1/);
      const output = Tensor.zeros({ shape: [1, 1, 2, 4], dtype });
      const key = Tensor.zeros({ shape: [1, 1, 1, 4], dtype });
      const call = { output, logSumExp: Tensor.zeros({ shape: [1, 2, 1], dtype }), key, value: key };
      const apart = tensor.strided({ shape: [1, 1, 2, 4], strides: [16, 16, 8, 2] });
      expect(() => attentionForward({ ...call, query: apart })).toThrow(
        /elements of a row of query are 2 elements apart, expected a last dimension with stride 1/,
      );
      const three = Tensor.zeros({ shape: [1, 1, 2, 4], dtype });
      const keys = Tensor.zeros({ shape: [1, 1, 3, 4], dtype });
      expect(() => attentionForward({ ...call, query: three, key: keys, value: keys })).toThrow(
        /query has 2 heads and key 3 heads, expected a multiple of the key's/,
      );
    });
  });
});
