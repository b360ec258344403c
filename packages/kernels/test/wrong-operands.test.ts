import { MtlError } from '@mtl/errors';
import { afterAll, describe, expect, it } from 'vitest';
import * as kernels from '../src/index.js';
import * as operations from '../src/operations/index.js';
import { refusal } from './support/refusals.js';

const { Tensor } = kernels;
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

/** Options all of which are `value`, or only the one called `only`, the others being a tensor. */
function optionsOf(value: unknown, { only, seen }: { only?: string; seen?: Set<string> } = {}): unknown {
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

/** Whether a call is done or refused with a code, and with nothing else. */
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

  it.each(wrong)('refuses options all of which are %s with a code', (_, value) => {
    expect(refusal(() => operation(optionsOf(value)))).toMatch(/^MTL_/);
  });

  it('refuses each of its options alone with a code', () => {
    const seen = new Set<string>();
    expectCoded(() => operation(optionsOf(live, { seen })));
    for (const only of seen) {
      for (const [, value] of wrong) expectCoded(() => operation(optionsOf(value, { only })));
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

  it.each(wrong)('of a tensor whose shape is %s is coded', (_, shape) => {
    const make = Tensor.empty as (options: unknown) => unknown;
    if (!(Array.isArray(shape) && typeof shape[0] === 'number')) {
      expect(refusal(() => make({ shape, dtype: 'float32' }))).toMatch(/^MTL_ARGUMENT/);
    }
    expect(refusal(() => make({ shape: [2, '3'], dtype: 'float32' }))).toMatch(/^MTL_ARGUMENT: a shape is/);
    expect(refusal(() => make(undefined))).toMatch(/^MTL_ARGUMENT/);
  });
});
