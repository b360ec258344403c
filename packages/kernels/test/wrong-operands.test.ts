import { MtlError } from '@mtl/errors';
import { afterAll, describe, expect, it } from 'vitest';
import { type DType, Tensor, tidy } from '../src/index.js';
import * as operations from '../src/operations/index.js';
import { refusal } from './support/refusals.js';

type Operation = (options: unknown) => void;
const all = Object.entries(operations as Record<string, unknown>).filter(
  (entry): entry is [string, Operation] => typeof entry[1] === 'function',
);
const disposed = Tensor.zeros({ shape: [2, 3], dtype: 'float32' });
disposed.dispose();
const live = Tensor.zeros({ shape: [2, 3], dtype: 'float32' });
afterAll(() => live.dispose());

const wrong: ReadonlyArray<readonly [string, unknown]> = [
  ['undefined', undefined],
  ['null', null],
  ['a number', 7],
  ['a number as a string', '7'],
  ['a string', 'tensor'],
  ['true', true],
  ['an array', [1]],
  ['an object', {}],
  ['a handle that is a string', { handle: '1' }],
  ['a symbol', Symbol('tensor')],
  ['a bigint', 7n],
  ['a tensor that was disposed of', disposed],
];

/**
 * Returns options that all are `value`; with `only`, that option alone is `value`, and the others are a
 * tensor.
 */
function makeOptions(value: unknown, { only, seen }: { only?: string; seen?: Set<string> } = {}): unknown {
  return new Proxy(
    {},
    {
      get: (_, name) => {
        seen?.add(String(name));
        return only === undefined || name === only ? value : live;
      },
    },
  );
}

/** Expects a call to succeed or to fail with a coded error. */
function expectCoded(call: () => unknown): void {
  try {
    call();
  } catch (error) {
    expect(MtlError.isInstance(error), String(error)).toBe(true);
    expect((error as Error).message).not.toMatch(/Cannot (read|destructure|convert)/);
  }
}

describe.each(all)('%s', (_, operation) => {
  it.each(wrong)('refuses options that are %s with a code', (_, value) => {
    expect(refusal(() => operation(value))).toMatch(/^MTL_/);
  });

  it.each(wrong)('refuses options that are all %s with a code', (_, value) => {
    expect(refusal(() => operation(makeOptions(value)))).toMatch(/^MTL_/);
  });

  it('refuses each of its options alone with a code', () => {
    const seen = new Set<string>();
    expectCoded(() => operation(makeOptions(live, { seen })));
    for (const only of seen) {
      for (const [, value] of wrong) expectCoded(() => operation(makeOptions(value, { only })));
    }
  });
});

describe('the error', () => {
  it('names the operand and what it is', () => {
    const call = (options: object): string => refusal(() => (operations.add as Operation)(options));
    expect(call({ output: live, left: 'x', right: live })).toBe("MTL_ARGUMENT: add: left is the string 'x'");
    expect(call({ output: null, left: live, right: live })).toBe('MTL_ARGUMENT: add: output is null');
    expect(refusal(() => (operations.add as Operation)(undefined))).toBe(
      'MTL_ARGUMENT: add: argument 1 is undefined',
    );
    const scale = { output: live, input: live, accumulate: 'false' };
    expect(refusal(() => (operations.sumRows as Operation)(scale))).toBe(
      "MTL_ARGUMENT: sum_rows: accumulate is the string 'false'",
    );
    const gelu = { output: live, input: live, kind: 'fast' };
    expect(refusal(() => (operations.biasGeluForward as Operation)(gelu))).toBe(
      'MTL_ARGUMENT: GELU of kind fast',
    );
  });

  it('names the operands of a call with other shapes', () => {
    tidy(() => {
      const make = (shape: readonly number[], dtype: DType = 'float32'): Tensor =>
        Tensor.zeros({ shape, dtype });
      const call = (name: string, options: object): string =>
        refusal(() => (operations as unknown as Record<string, Operation>)[name]!(options));
      expect(call('cast', { output: make([3]), input: make([2]) })).toBe(
        'MTL_ARGUMENT: cast: output has 3 elements, expected as many as input: 2',
      );
      expect(call('scale', { output: make([3]), input: make([2]), factor: 2 })).toBe(
        'MTL_SHAPE: scale: output has shape [3], expected [2]',
      );
      const ids = make([2], 'int32');
      expect(call('embeddingForward', { output: make([3, 4]), table: make([5, 4]), ids, firstRow: 0 })).toBe(
        'MTL_ARGUMENT: embedding_forward: ids has 2 elements, expected one for each of the 3 rows of output',
      );
      const squares = make([1], 'float64');
      expect(call('muonNormalize', { output: make([4]), input: make([3]), squares, epsilon: 1 })).toBe(
        'MTL_ARGUMENT: muon_normalize: output has 4 elements, expected as many as input: 3',
      );
    });
  });

  it('is about shapes before shared memory', () => {
    tidy(() => {
      const left = Tensor.zeros({ shape: [2, 2], dtype: 'float32' });
      const right = Tensor.zeros({ shape: [3, 2], dtype: 'float32' });
      expect(refusal(() => operations.matmul({ output: left, left, right }))).toMatch(
        /^MTL_SHAPE: matmul: left \[2, 2\] has 2 columns, right \[3, 2\] has 3 rows/,
      );
    });
  });

  it('of a call with tensors in place of one object says how to call', () => {
    const call = (operation: unknown): void =>
      (operation as (...tensors: readonly unknown[]) => void)(live, live, live);
    for (const [operation, name, operands] of [
      [operations.matmul, 'matmul', 'output, left, right'],
      [operations.add, 'add', 'output, left, right'],
      [operations.sumOfSquares, 'sum_of_squares', 'output, input'],
    ] as const) {
      expect(() => call(operation)).toThrow(
        expect.objectContaining({
          code: 'MTL_ARGUMENT',
          message: `${name}: none of its tensors is given`,
          expected: expect.stringContaining(`tensors: ${operands}`),
          remedy: expect.stringContaining('one object'),
        }),
      );
    }
  });

  it('of values on the host is about what was given', () => {
    const from = (values: unknown, shape: readonly number[]): string =>
      refusal(() => Tensor.from(values as number[], { shape, dtype: 'float32' }));
    const tensor = 'for a tensor of shape [3] and dtype float32';
    expect(from([1, 2], [3])).toBe(`MTL_SHAPE: an array of 2 elements ${tensor}`);
    expect(from(Float32Array.of(1, 2), [3])).toBe(`MTL_SHAPE: Float32Array of 2 elements ${tensor}`);
    expect(from(Uint8Array.of(1, 2), [3])).toBe(`MTL_SHAPE: Uint8Array of 2 bytes ${tensor}`);
    expect(from('123', [3])).toBe("MTL_ARGUMENT: the values of a tensor are the string '123'");
    expect(from(undefined, [3])).toBe('MTL_ARGUMENT: the values of a tensor are undefined');
    const nested = 'an array whose element 0 is an array';
    expect(from([[1, 2, 3]], [3])).toBe(`MTL_ARGUMENT: the values of a tensor are ${nested}`);
    expect(from([1, '2', 3], [3])).toContain("element 1 is the string '2'");
  });

  it.each(wrong)('of a tensor whose shape is %s is coded', (_, shape) => {
    const make = Tensor.empty as (options: unknown) => unknown;
    if (!(Array.isArray(shape) && typeof shape[0] === 'number')) {
      expect(refusal(() => make({ shape, dtype: 'float32' }))).toMatch(/^MTL_ARGUMENT/);
    }
    expect(refusal(() => make({ shape: [2, '3'], dtype: 'float32' }))).toMatch(/^MTL_ARGUMENT: a shape is/);
    expect(refusal(() => make(undefined))).toMatch(/^MTL_ARGUMENT/);
  });
});
