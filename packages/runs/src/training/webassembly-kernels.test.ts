import { KernelError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { checkWebAssemblyMemory, noteOfWebAssembly } from './webassembly-kernels.js';

const webAssembly = { isWebAssembly: true, mostThreads: 1024, instructionSet: 'simd128' };
const native = { isWebAssembly: false, mostThreads: 1024, instructionSet: 'avx2' };

describe('noteOfWebAssembly', () => {
  it('tells of WebAssembly alone', () => {
    expect(noteOfWebAssembly(webAssembly)).toContain('WebAssembly');
    expect(noteOfWebAssembly(webAssembly)).not.toMatch(/one thread|relaxed/);
    expect(noteOfWebAssembly(native)).toBeUndefined();
  });

  it('tells that one thread computes, and that results differ from machine to machine', () => {
    expect(noteOfWebAssembly({ ...webAssembly, mostThreads: 1 })).toContain(
      'without shared memory, with one thread',
    );
    const relaxed = { ...webAssembly, instructionSet: 'relaxed_simd' };
    expect(noteOfWebAssembly(relaxed)).toContain('differ from machine to machine');
  });
});

describe('checkWebAssemblyMemory', () => {
  const adamW = (num: number) => ({ numParameters: num, numTrained: num, numStates: 2 });

  it('refuses what 4 GiB cannot hold, with the numbers', async () => {
    // weight, gradient and two moments take 4 bytes each, so 2^28 parameters take the whole 4 GiB
    await checkWebAssemblyMemory(adamW(2 ** 28 - 1), webAssembly);
    await expect(checkWebAssemblyMemory(adamW(2 ** 28), webAssembly)).rejects.toMatchObject({
      code: 'MTL_OUT_OF_MEMORY',
      message: expect.stringMatching(/take 4\.0+ GiB.*has 4\.0+ GiB/),
      remedy: expect.stringContaining('native kernels'),
    });
    await checkWebAssemblyMemory(adamW(2 ** 28), native);
  });

  it('counts gradients and state of the trained parameters alone', async () => {
    await checkWebAssemblyMemory({ numParameters: 2 ** 29, numTrained: 2 ** 20, numStates: 2 }, webAssembly);
    await checkWebAssemblyMemory({ ...adamW(2 ** 28), numStates: 1 }, webAssembly);
  });

  it('counts activations, as the planner of the run does', async () => {
    const check = (peakBytes: () => Promise<number>) =>
      checkWebAssemblyMemory({ ...adamW(2 ** 26), peakBytes }, webAssembly);
    await check(async () => 2 ** 32 - 1);
    await expect(check(async () => 5 * 2 ** 30)).rejects.toMatchObject({
      code: 'MTL_OUT_OF_MEMORY',
      message: expect.stringMatching(/with activations, 5\.0+ GiB \(1\.0+ GiB without them\).*has 4\.0+ GiB/),
      remedy: expect.stringContaining('--micro-batch-size'),
    });
    // WebAssembly's meta device itself counts up to 4 GiB
    const full = new KernelError('MTL_OUT_OF_MEMORY', 'no 8 bytes left');
    await expect(check(() => Promise.reject(full))).rejects.toThrow(/with activations, more \(1\.0+ GiB/);
    await expect(check(() => Promise.reject(new Error('other')))).rejects.toThrow('other');
  });
});
