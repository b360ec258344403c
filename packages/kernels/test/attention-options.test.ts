import { afterAll, describe, expect, it } from 'vitest';
import { attentionBackward, attentionCachedForward, attentionForward, Tensor } from '../src/index.js';
import { catchError } from './support/refusals.js';

const zeros = (shape: readonly number[]): Tensor => Tensor.zeros({ shape, dtype: 'float32' });
const [rows, statistics, cache] = [zeros([2, 1, 1, 4]), zeros([1, 1, 2]), zeros([1, 1, 2, 4])];
const operands = { query: rows, key: rows, value: rows };
afterAll(() => {
  for (const tensor of [rows, statistics, cache]) tensor.dispose();
});

type Call = (options: object) => void;
const forward: Call = (options) => attentionForward({ ...operands, output: rows, ...options });
const backward: Call = (options) =>
  attentionBackward({
    ...operands,
    queryGradient: rows,
    keyGradient: rows,
    valueGradient: rows,
    outputGradient: rows,
    rowSums: statistics,
    logSumExp: statistics,
    ...options,
  });
const cached: Call = (options) =>
  attentionCachedForward({
    ...operands,
    keyCache: cache,
    valueCache: cache,
    output: rows,
    position: 0,
    ...options,
  });

/** Returns code, message and remedy of the error of a call that TypeScript would not compile. */
function refusal(call: Call, options: object): string {
  const { code, message, remedy } = catchError(() => call(options));
  return `${code}: ${message} (${remedy})`;
}

describe('options of attention that JavaScript may misplace', () => {
  it.each([
    ['attentionForward', forward],
    ['attentionBackward', backward],
    ['attentionCachedForward', cached],
  ] as const)('of visibility are refused outside of it: %s', (name, call) => {
    expect(refusal(call, { causal: true })).toBe(
      `MTL_ARGUMENT: ${name}: causal is given outside of visibility (visibility: { causal: true })`,
    );
    for (const option of ['firstQuery', 'firstKey', 'keyStart', 'keyMask', 'packed']) {
      expect(refusal(call, { [option]: rows })).toContain(
        `${name}: ${option} is given outside of visibility`,
      );
    }
  });

  it('may be undefined there, as options that are left out', () => {
    expect(() => forward({ causal: undefined, visibility: undefined })).not.toThrow();
    expect(() => forward({ visibility: { causal: undefined, mask: undefined } })).not.toThrow();
  });

  it('are refused in visibility under another name', () => {
    expect(refusal(forward, { visibility: { casual: true } })).toBe(
      'MTL_ARGUMENT: attentionForward: unknown option visibility.casual (visibility: { causal: ... })',
    );
    expect(refusal(backward, { visibility: { toString: 1 } })).toContain('visibility.toString');
  });

  it('are refused where visibility or its samples are no objects of options', () => {
    for (const visibility of [true, 'causal', null]) {
      expect(refusal(forward, { visibility })).toContain('attentionForward: visibility is ');
    }
    const packed = { longest: 2, numScores: 4 };
    expect(refusal(forward, { visibility: { packed: true } })).toContain('visibility.packed has no starts');
    expect(refusal(forward, { visibility: { packed } })).toContain('visibility.packed has no starts');
    const queries = { longest: 2 };
    expect(refusal(forward, { visibility: { packed: { ...packed, starts: rows, queries } } })).toContain(
      'visibility.packed.queries has no starts',
    );
  });
});
