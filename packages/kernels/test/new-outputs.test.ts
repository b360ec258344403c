import { afterAll, beforeAll, describe, expect, expectTypeOf, it, vi } from 'vitest';
import { add, cast, type DType, numLiveTensors, rmsNormForward, scale, Tensor, tidy } from '../src/index.js';
import { setPoison } from '../src/internal/index.js';
import { caseTables } from './op-cases/case-tables.js';
import { disposeAll, makeTensors } from './op-cases/case-tensors.js';
import { listDtypes } from './op-cases/check-parity.js';
import { refusal } from './support/refusals.js';

type Options = Readonly<Record<string, unknown>>;
type Results = Tensor | Readonly<Record<string, Tensor>>;
type Returning = ((options: Options) => Results | undefined) & { readonly outputNames: readonly string[] };

const { isReturning, compared } = vi.hoisted(() => ({
  isReturning: (value: unknown): value is Returning => typeof value === 'function' && 'outputNames' in value,
  /** The number of results of each operation that have been compared. */
  compared: new Map<string, number>(),
}));

// each operation computes into new outputs first, and these are compared with the outputs of the call
vi.mock('../src/operations/index.js', async (importOriginal) => {
  const original = await importOriginal<Record<string, unknown>>();
  const cast = original.cast as (options: { input: Tensor; dtype: DType }) => Tensor;
  const comparing = (name: string, operation: Returning) => (options: Options) => {
    const { outputNames } = operation;
    const given = outputNames.map((each) => options[each] as Tensor | undefined);
    if (options.accumulate === true || given.includes(undefined)) return operation(options);
    const inputs = Object.entries(options).filter(([each]) => !outputNames.includes(each));
    const choices = name === 'cast' ? { dtype: given[0]!.dtype } : {};
    const made = operation({ ...Object.fromEntries(inputs), ...choices })!;
    operation(options); // the outputs may be the memory of inputs
    outputNames.forEach((each, position) => {
      using result = made instanceof Tensor ? made : made[each]!;
      const output = given[position]!;
      const { dtype, shape } = output;
      if (result.dtype !== dtype) return; // the caller chose another dtype
      // strided views have to be copied, and are neither float64 nor integers
      const isCopied = !['float64', 'int32', 'int64'].includes(dtype);
      using expected = isCopied ? cast({ input: output, dtype }) : output.view({ shape });
      expect(result.size).toBe(expected.size);
      expect(result.read()).toEqual(expected.read());
      compared.set(name, (compared.get(name) ?? 0) + 1);
    });
    return undefined;
  };
  return Object.fromEntries(
    Object.entries(original).map(([name, value]) => [
      name,
      isReturning(value) ? Object.assign(comparing(name, value), { outputNames: value.outputNames }) : value,
    ]),
  );
});

const operations = (await import('../src/operations/index.js')) as unknown as Record<string, Returning>;
const returning = Object.keys(operations).filter((name) => isReturning(operations[name]));

beforeAll(() => setPoison(true));
afterAll(() => {
  setPoison(false);
  expect(numLiveTensors()).toBe(0);
});

const cases = caseTables
  .flatMap((table) => table.cases)
  .filter((opCase) => opCase.benchmark === undefined && !opCase.isOnlyForCuda);

describe('outputs that are left out equal the outputs of a full call, bit for bit', () => {
  for (const opCase of cases) {
    it.each(listDtypes(opCase))(`${opCase.name} %s`, (dtype) => {
      const tensors = makeTensors(opCase.tensors, { device: 'cpu', dtype, seed: 7 });
      opCase.run(tensors);
      disposeAll(tensors);
    });
  }

  it('in every operation that returns them', () => {
    expect(returning.length).toBeGreaterThan(25);
    expect(returning.filter((name) => !compared.has(name))).toEqual([]);
  });
});

describe('a call without outputs', () => {
  const make = (shape: readonly number[]): Tensor => Tensor.zeros({ shape, dtype: 'float32' });

  it('frees the outputs of a call that is refused', () => {
    using left = make([2, 3]);
    using right = make([2, 3]);
    const before = numLiveTensors();
    expect(refusal(() => operations.matmul!({ left, right }))).toMatch(/^MTL_SHAPE: matmul: left/);
    expect(numLiveTensors()).toBe(before);
  });

  it('cannot add to them', () => {
    using input = make([2, 3]);
    expect(refusal(() => operations.sumRows!({ input, accumulate: true }))).toBe(
      'MTL_ARGUMENT: sum_rows: output is missing',
    );
  });

  it('with some outputs names one that is missing', () => {
    using input = make([2, 3]);
    using weight = make([3]);
    using rstd = make([2]);
    expect(refusal(() => operations.rmsNormForward!({ input, weight, rstd, epsilon: 1e-5 }))).toBe(
      'MTL_ARGUMENT: rms_norm_forward: output is missing',
    );
  });

  it('names an input of another type', () => {
    using right = make([2, 3]);
    expect(refusal(() => operations.add!({ left: 'x', right }))).toBe(
      "MTL_ARGUMENT: add: left is the string 'x'",
    );
    expect(refusal(() => operations.add!({ right }))).toBe('MTL_ARGUMENT: add: output is missing');
  });
});

it('has the type of what it returns', () => {
  const results = tidy(() => {
    const input = Tensor.zeros({ shape: [2, 3], dtype: 'float32' });
    const weight = Tensor.zeros({ shape: [3], dtype: 'float32' });
    const norm = rmsNormForward({ input, weight, epsilon: 1e-5 });
    expectTypeOf(norm).toEqualTypeOf<{ readonly output: Tensor; readonly rstd: Tensor }>();
    const rounded = cast({ input, dtype: 'bfloat16' });
    expectTypeOf(rounded).toEqualTypeOf<Tensor>();
    expectTypeOf(add({ output: input, left: input, right: input })).toEqualTypeOf<void>();
    // @ts-expect-error: nothing to add to
    expect(() => scale({ input, factor: 2, accumulate: true })).toThrow('output is missing');
    return [norm.output.shape, norm.rstd.shape, rounded.dtype];
  });
  expect(results).toEqual([[2, 3], [2], 'bfloat16']);
});
