import { describe, expect, it } from 'vitest';
import { checkWebAssemblyMemory, noteOfWebAssembly } from './webassembly-kernels.js';

const webAssembly = { isWebAssembly: true };
const native = { isWebAssembly: false };

describe('noteOfWebAssembly', () => {
  it('tells of WebAssembly alone', () => {
    expect(noteOfWebAssembly(webAssembly)).toContain('WebAssembly');
    expect(noteOfWebAssembly(native)).toBeUndefined();
  });
});

describe('checkWebAssemblyMemory', () => {
  const adamW = (num: number) => ({ numParameters: num, numTrained: num, numStates: 2 });

  it('refuses what 4 GiB cannot hold, with the numbers', () => {
    // 4 bytes each for the weight, the gradient and two moments. 2^28 parameters take all of the memory
    checkWebAssemblyMemory(adamW(2 ** 28 - 1), webAssembly);
    expect(() => checkWebAssemblyMemory(adamW(2 ** 28), webAssembly)).toThrow(
      expect.objectContaining({
        code: 'MTL_OUT_OF_MEMORY',
        message: expect.stringMatching(/take 4\.0+ GiB.*has 4\.0+ GiB/),
        remedy: expect.stringContaining('native kernels'),
      }),
    );
    checkWebAssemblyMemory(adamW(2 ** 28), native);
  });

  it('counts gradients and state of the trained parameters alone', () => {
    checkWebAssemblyMemory({ numParameters: 2 ** 29, numTrained: 2 ** 20, numStates: 2 }, webAssembly);
    checkWebAssemblyMemory({ ...adamW(2 ** 28), numStates: 1 }, webAssembly);
  });
});
