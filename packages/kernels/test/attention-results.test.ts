import { afterAll, describe, expect, it } from 'vitest';
import {
  attentionForward,
  bfloat16Bits,
  type Device,
  type DType,
  hostInformation,
  instructionSets,
  setInstructionSet,
  Tensor,
  tidy,
} from '../src/index.js';
import { bfloat16Value } from '../src/internal/index.js';
import { attentionValues } from './support/attention-formula.js';
import { differentiateAttention } from './support/differentiate-attention.js';

const detected = instructionSets.indexOf(hostInformation().detectedInstructionSet);
const places: Array<readonly [Device, (typeof instructionSets)[number]]> = [
  ['reference', 'plain'],
  ...instructionSets.slice(0, detected + 1).map((level) => ['cpu', level] as const),
];
afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

const sizes = { queries: 130, keys: 130, batch: 1, heads: 2, groups: 1, size: 20 };
const [ofQueries, ofKeys] = [
  [130, 1, 2, 20],
  [130, 1, 1, 20],
];
const values = attentionValues(sizes);

/** Returns query, key, value, output gradient and logSumExp. */
function operandsOf(dtype: DType, device: Device = 'cpu') {
  const make = (source: Float64Array, shape: readonly number[]) =>
    Tensor.from([...source], { shape, dtype, device });
  return {
    query: make(values.query, ofQueries),
    key: make(values.key, ofKeys),
    value: make(values.value, ofKeys),
    outputGradient: make(values.outputGradient, ofQueries),
    logSumExp: Tensor.empty({ shape: [1, 2, 130], dtype: 'float32', device }),
  };
}

function gradientsOf(dtype: DType, device: Device = 'cpu') {
  const zeros = (shape: readonly number[]) => Tensor.zeros({ shape, dtype, device });
  return { queryGradient: zeros(ofQueries), keyGradient: zeros(ofKeys), valueGradient: zeros(ofKeys) };
}

describe.each(places)('results of attention on %s, %s', (device, level) => {
  /** Returns output and gradients over bfloat16 operands; gradients use an output in bfloat16. */
  function attend(dtype: DType): number[][] {
    setInstructionSet(level);
    return tidy(() => {
      const operands = { ...operandsOf('bfloat16', device), visibility: { causal: true } };
      const output = Tensor.empty({ shape: ofQueries, dtype, device });
      attentionForward({ ...operands, output });
      const rounded = attentionForward(operands);
      const gradients = gradientsOf(dtype, device);
      differentiateAttention({ ...operands, ...gradients, output: rounded });
      return [output, ...Object.values(gradients)].map((tensor) => tensor.toArray());
    });
  }

  it('in float32 are those in bfloat16 before they are rounded', () => {
    const [rounded, exact] = [attend('bfloat16'), attend('float32')];
    const toBfloat16 = (value: number) => bfloat16Value(bfloat16Bits(value));
    exact.forEach((numbers, index) => {
      expect(numbers.map(toBfloat16)).toEqual(rounded[index]);
      // by chance one value in 256 has only 8 bits, and so have zeros
      expect(numbers.filter((value) => toBfloat16(value) !== value).length).toBeGreaterThan(
        numbers.length / 2,
      );
    });
  });

  it('are added to gradients', () => {
    setInstructionSet(level);
    tidy(() => {
      const operands = { ...operandsOf('float32', device), visibility: { causal: true } };
      const output = attentionForward(operands);
      const [once, twice] = [gradientsOf('float32', device), gradientsOf('float32', device)];
      differentiateAttention({ ...operands, ...once, output });
      for (let time = 0; time < 2; time++)
        differentiateAttention({ ...operands, ...twice, output, accumulate: true });
      for (const name of ['queryGradient', 'keyGradient', 'valueGradient'] as const) {
        // twice a number is exact
        expect(twice[name].toArray()).toEqual(once[name].toArray().map((value) => 2 * value));
      }
    });
  });
});

describe('results of attention', () => {
  const attempt =
    (
      output: DType,
      gradients: DType,
      { of = 'bfloat16' as DType, accumulate = false, key = gradients } = {},
    ) =>
    () =>
      tidy(() => {
        const operands = operandsOf(of);
        const to = Tensor.zeros({ shape: ofQueries, dtype: output });
        attentionForward({ ...operands, output: to });
        const keyGradient = gradientsOf(key).keyGradient;
        differentiateAttention({
          ...operands,
          ...gradientsOf(gradients),
          keyGradient,
          output: to,
          accumulate,
        });
        return [];
      });

  it.each([
    [
      'an output of another type',
      attempt('float16', 'bfloat16'),
      'output is float16, expected bfloat16 or float32',
    ],
    [
      'an output of fewer bits',
      attempt('bfloat16', 'float32', { of: 'float32' }),
      'output is bfloat16, expected float32',
    ],
    [
      'gradients of another type',
      attempt('bfloat16', 'float16'),
      'queryGradient is float16, expected bfloat16 or float32',
    ],
    [
      'gradients of two types',
      attempt('bfloat16', 'float32', { key: 'bfloat16' }),
      'keyGradient is bfloat16, expected float32',
    ],
    [
      'adding to gradients of 16 bits',
      attempt('bfloat16', 'bfloat16', { accumulate: true }),
      'queryGradient is bfloat16, expected float32',
    ],
  ])('refuse %s', (_, run, message) => {
    expect(run).toThrow(message);
  });

  it('may be float32 over operands of 16 bits', () => {
    expect(attempt('float32', 'float32')).not.toThrow();
    expect(attempt('bfloat16', 'float32', { accumulate: true })).not.toThrow();
    expect(attempt('float32', 'float16', { of: 'float16' })).not.toThrow();
  });
});
