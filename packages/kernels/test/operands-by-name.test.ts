import { afterAll, describe, expect, it } from 'vitest';
import { listOperations, Tensor } from '../src/index.js';
import { type Operands, runOperation } from '../src/run-operation.js';
import { catchError } from './support/refusals.js';

const make = (values: readonly number[]): Tensor =>
  Tensor.from(values, { shape: [values.length], dtype: 'float32' });
const [output, input] = [Tensor.zeros({ shape: [2], dtype: 'float32' }), make([1, 2])];
const matrix = input.view({ shape: [1, 2] });
afterAll(() => {
  for (const tensor of [matrix, output, input]) tensor.dispose();
});

/** Returns code, message and expectation of a call's error. */
function refusal(name: string, operands: Operands): string {
  const { code, message, expected } = catchError(() => runOperation(name, operands));
  return `${code}: ${message} (${expected})`;
}

describe('operands by name', () => {
  it('are read in any order', () => {
    runOperation('sum_rows', { accumulate: false, input: matrix, output });
    runOperation('sum_rows', { input: matrix, output, accumulate: true });
    expect(output.toArray()).toEqual([2, 4]);
  });

  it('of earlier calls are forgotten: an optional tensor is left out by its absence and by undefined', () => {
    const bias = make([10, 20]);
    const gelu = (operands: Operands): number[] => {
      runOperation('bias_gelu_forward', { output, input, erf: true, ...operands });
      return output.toArray();
    };
    const without = gelu({});
    expect(gelu({ bias })).not.toEqual(without);
    expect(gelu({})).toEqual(without);
    expect(gelu({ bias: undefined })).toEqual(without);
    bias.dispose();
  });

  it('that the schema does not have are refused with the names that it has', () => {
    expect(refusal('bias_gelu_forward', { output, input, tanh: true })).toBe(
      'MTL_ARGUMENT: bias_gelu_forward: unknown operand tanh (tensors: output, input, bias (optional); attributes: erf)',
    );
    expect(refusal('add', { output, left: input, right: input, toString: 1 })).toBe(
      'MTL_ARGUMENT: add: unknown operand toString (tensors: output, left, right; attributes: none)',
    );
  });

  it('that are missing are refused with the names of the schema', () => {
    expect(refusal('bias_gelu_forward', { output, input })).toBe(
      'MTL_ARGUMENT: bias_gelu_forward: erf is missing (tensors: output, input, bias (optional); attributes: erf)',
    );
    expect(refusal('add', { output, left: input, right: undefined })).toMatch(
      /^MTL_ARGUMENT: add: right is missing \(tensors: output, left, right;/,
    );
    expect(refusal('add', {})).toMatch(/^MTL_ARGUMENT: add: none of its tensors is given/);
  });

  it('of another type are refused', () => {
    expect(refusal('add', { output, left: 1, right: input })).toBe(
      'MTL_ARGUMENT: add: left is the number 1 (a Tensor)',
    );
    expect(refusal('sum_rows', { output, input: matrix, accumulate: input })).toBe(
      'MTL_ARGUMENT: sum_rows: accumulate is an object of Tensor (a number or a boolean)',
    );
  });

  it('have one name each, attributes included', () => {
    for (const { name, tensors, attributes } of listOperations()) {
      const names = [...tensors.map((tensor) => tensor.replace('?', '')), ...attributes];
      expect(new Set(names).size, name).toBe(names.length);
    }
  });
});
