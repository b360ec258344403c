import { describe, expect, it } from 'vitest';
import { add, attentionForward, splitProjection, Tensor, tidy } from '../src/index.js';
import { differentiateAttention } from './support/differentiate-attention.js';

// S sequence, B micro-batch, A query heads in G groups of R, D head size
const [sequence, batch, groups, members, size] = [70, 2, 2, 2, 12];
const heads = groups * members;
const dtype = 'float32';

/** Returns reproducible values in [-1.5, 1.5). */
function values(count: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 3;
  });
}

type Operands = { query: Tensor; key: Tensor; value: Tensor };

/**
 * Returns tensors [S, B, heads, D] with `gap` elements of 7 after each head, as strided views, and the
 * tensors that hold them.
 */
function withGaps(sources: readonly Float32Array[], gap: number) {
  const [query, key, value] = sources.map((source) => {
    const count = source.length / (sequence * batch * size);
    const row = size + gap;
    const all = new Float32Array((source.length / size) * row).fill(7);
    for (let head = 0; head < source.length / size; head++) {
      all.set(source.subarray(head * size, (head + 1) * size), head * row);
    }
    const base = Tensor.from(all, { shape: [all.length], dtype });
    const strides = [batch * count * row, count * row, row, 1];
    return { base, view: base.strided({ shape: [sequence, batch, count, size], strides }) };
  });
  const views = { query: query!.view, key: key!.view, value: value!.view };
  return { views, bases: [query!, key!, value!].map(({ base }) => base) };
}

/** Returns outputs, and writes gradients to `gradients`. */
function attend(operands: Operands, gradients: Operands): Float32Array {
  const output = Tensor.empty({ shape: [sequence, batch, heads, size], dtype });
  const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype });
  const call = { ...operands, output, logSumExp, visibility: { causal: true } };
  attentionForward(call);
  differentiateAttention({
    ...call,
    outputGradient: Tensor.from(values(output.size, 9), { shape: output.shape, dtype }),
    queryGradient: gradients.query,
    keyGradient: gradients.key,
    valueGradient: gradients.value,
  });
  return output.read<'float32'>();
}

describe('strided views', () => {
  const part = sequence * batch * groups * size;
  const sources = [values(members * part, 1), values(part, 2), values(part, 3)];
  const zeros = sources.map(({ length }) => new Float32Array(length));

  it('give attention the bits of contiguous tensors and of a packed projection', () => {
    tidy(() => {
      const contiguous = (arrays: readonly Float32Array[]): Operands => {
        const [query, key, value] = arrays.map((source) =>
          Tensor.from(source, { shape: [sequence, batch, source.length / (part / groups), size], dtype }),
        );
        return { query: query!, key: key!, value: value! };
      };
      const expected = contiguous(zeros);
      const output = attend(contiguous(sources), expected);
      const expectedGradients = Object.values(expected).map((tensor) => tensor.read<'float32'>());

      const gap = 5;
      const gradients = withGaps(zeros, gap);
      expect(attend(withGaps(sources, gap).views, gradients.views)).toEqual(output);
      gradients.bases.forEach((base, index) => {
        const all = base.read<'float32'>();
        all.forEach((value, at) => {
          const [head, column] = [Math.floor(at / (size + gap)), at % (size + gap)];
          const right = column < size ? expectedGradients[index]![head * size + column] : 7;
          if (value !== right) expect(value, `gradient ${index}, element ${at}`).toBe(right);
        });
      });

      const shape = [sequence, batch, groups, members + 2, size];
      const packed = new Float32Array(sequence * batch * groups * (members + 2) * size);
      const rows = [members, 1, 1];
      sources.forEach((source, index) => {
        const first = index === 0 ? 0 : members + index - 1;
        for (let row = 0; row < source.length / size; row++) {
          const at = Math.floor(row / rows[index]!) * (members + 2) + first + (row % rows[index]!);
          packed.set(source.subarray(row * size, (row + 1) * size), at * size);
        }
      });
      const qkvGradient = Tensor.zeros({ shape, dtype });
      const projected = attend(
        splitProjection(Tensor.from(packed, { shape, dtype })),
        splitProjection(qkvGradient),
      );
      expect(projected).toEqual(output);
      const gradient = qkvGradient.read<'float32'>();
      const firstKey = gradient.subarray(members * size, (members + 1) * size);
      expect(firstKey).toEqual(expectedGradients[1]!.subarray(0, size));
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
        () => view.strided({ shape: [2], strides: [1] }),
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
