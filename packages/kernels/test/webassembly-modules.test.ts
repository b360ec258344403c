import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hostInformation, matmul, setInstructionSet, setNumThreads, Tensor, tidy } from '../src/index.js';

const { addonPath, isWebAssembly, mostThreads, instructionSet } = hostInformation();
const isRelaxed = instructionSet === 'relaxed_simd';

const locate = (file: string): string => join(dirname(addonPath), file);

/** Returns true if a module names a feature of the engine, as the linker does where the module needs it. */
const hasFeature = (file: string, feature: string): boolean => readFileSync(locate(file)).includes(feature);

describe.skipIf(!isWebAssembly)(`modules of WebAssembly${isWebAssembly ? '' : ' (no WebAssembly)'}`, () => {
  it('have atomics and relaxed SIMD only where they are asked for', () => {
    const found = ['simd128', 'atomics', 'relaxed-simd'].map((feature) =>
      ['', '_single', '_relaxed'].filter((kind) => hasFeature(`mtl_kernels${kind}.wasm`, feature)),
    );
    expect(found).toEqual([['', '_single', '_relaxed'], ['', '_relaxed'], ['_relaxed']]);
  });

  it.runIf(mostThreads === 1)('without shared memory refuse a second thread, with what to do', () => {
    setNumThreads(1);
    expect(() => setNumThreads(2)).toThrow(
      expect.objectContaining({
        code: 'MTL_WEBASSEMBLY',
        message: '2 threads asked for, but the kernels have no shared memory, expected 1',
        remedy: expect.stringContaining('MTL_KERNELS=wasm,'),
      }),
    );
  });

  it('without shared memory have the memory that is asked for, and say when it is too little', () => {
    const { instantiateKernels } = createRequire(import.meta.url)('@mtl/kernels-wasm32/instantiate.cjs');
    // Node's types do not declare WebAssembly.Module
    const module = new (Reflect.get(globalThis, 'WebAssembly').Module)(
      readFileSync(locate('mtl_kernels_single.wasm')),
    );
    const load = (memoryBytes: number) => instantiateKernels({ module, numProcessors: 1, memoryBytes });
    const full = (message: string) => expect.objectContaining({ code: 'MTL_OUT_OF_MEMORY', message });
    expect(() => load(1 << 20)).toThrow(full('memoryBytes is 1048576, expected at least 16777216'));
    // a write copies the array into the module's memory first
    const kernels = load(64 << 20);
    expect(() => kernels.write(0, new Uint8Array(128 << 20))).toThrow(
      full('the 0.06 GiB of WebAssembly have no 134217728 bytes left'),
    );
    expect(kernels.host()).toMatchObject({ numThreads: 1, instructionSet: 'simd128' });
  });

  it.runIf(isRelaxed)('with relaxed SIMD round a sum of products once where the processor can', () => {
    // (1 + e)^2 has a bit more than float32, which a product that is rounded by itself loses
    const e = 2 ** -12;
    using left = Tensor.from([1, 1 + e], { shape: [1, 2], dtype: 'float32' });
    using right = Tensor.from([-(1 + 2 * e), 1 + e], { shape: [2, 1], dtype: 'float32' });
    const multiply = (set: string): number => {
      setInstructionSet(set);
      return tidy(() => matmul({ left, right }).item());
    };
    onTestFinished(() => setInstructionSet('relaxed_simd'));
    expect(multiply('simd128')).toBe(0);
    const isFused = existsSync('/proc/cpuinfo') && / fma /.test(readFileSync('/proc/cpuinfo', 'utf8'));
    expect(isFused ? [e * e] : [0, e * e]).toContain(multiply('relaxed_simd'));
  });
});
