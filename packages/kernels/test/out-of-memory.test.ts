import { afterEach, expect, it } from 'vitest';
import { limitMemory, memoryStatistics, newTypedArray, Tensor } from '../src/index.js';

afterEach(() => limitMemory('cpu', 0));

it.each([
  ['a tensor beyond a limit', () => Tensor.empty({ shape: [1 << 20], dtype: 'float32' })],
  ['a tensor larger than any memory', () => Tensor.empty({ shape: [2 ** 42], dtype: 'float32' })],
  ['a host array larger than any memory', () => newTypedArray('float32', 2 ** 50)],
])('%s is refused with what to do', (_, take) => {
  limitMemory('cpu', memoryStatistics('cpu').bytesInUse + 1024);
  expect(take).toThrow(
    expect.objectContaining({
      code: 'MTL_OUT_OF_MEMORY',
      remedy: expect.stringMatching(/^dispose of tensors .*smaller batches.*limitMemory\(device, 0\)$/),
    }),
  );
});

it.each([-1, 0.5, Number.NaN, '7'])('a host array of %s elements is refused', (size) => {
  expect(() => newTypedArray('float32', size as number)).toThrow(
    expect.objectContaining({ code: 'MTL_ARGUMENT' }),
  );
});
