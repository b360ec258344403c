import { afterAll, describe, expect, it } from 'vitest';
import { hostInformation, setInstructionSet, Tensor, tanhForward } from '../src/index.js';

const detected = hostInformation().detectedInstructionSet;
const levels = hostInformation().usableInstructionSets;
afterAll(() => setInstructionSet(detected));

function hyperbolicTangents(inputs: Float32Array): Float32Array {
  using input = Tensor.from(inputs, { shape: [inputs.length], dtype: 'float32' });
  using output = tanhForward({ input });
  return output.read<'float32'>();
}

describe.each(levels)('tanh with %s kernels', (level) => {
  it('has a relative error below 3e-7, for numbers of every size', () => {
    setInstructionSet(level);
    const sizes = Array.from({ length: 200_000 }, (_, index) => 10 ** (-37 + (38.5 * index) / 200_000));
    const steps = Array.from({ length: 200_000 }, (_, index) => (12 * index) / 200_000);
    const inputs = Float32Array.from([...sizes, ...steps].flatMap((size) => [size, -size]));
    let largest = 0;
    hyperbolicTangents(inputs).forEach((value, index) => {
      const expected = Math.tanh(inputs[index]!);
      if (expected !== 0) largest = Math.max(largest, Math.abs(value / expected - 1));
    });
    expect(largest).toBeLessThan(3e-7);
  });

  it('keeps zeros, the sign, infinities and NaN', () => {
    setInstructionSet(level);
    const inputs = Float32Array.of(0, -0, Infinity, -Infinity, Number.NaN, 3e38, -3e38, 1e-45);
    expect([...hyperbolicTangents(inputs)]).toEqual([0, -0, 1, -1, Number.NaN, 1, -1, expect.any(Number)]);
  });
});
