import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hostInformation, matmul, setInstructionSet, setNumThreads, Tensor, tidy } from '../src/index.js';

const { addonPath, isWebAssembly, mostThreads, instructionSet } = hostInformation();
const isRelaxed = instructionSet === 'relaxed_simd';

/** The functions of WebAssembly that this file uses. Node's types do not declare them. */
interface WithWebAssembly {
  readonly WebAssembly: {
    readonly Module: {
      new (bytes: Uint8Array): object;
      customSections(module: object, name: string): readonly ArrayBuffer[];
    };
  };
}

const { Module } = (globalThis as unknown as WithWebAssembly).WebAssembly;
const compile = (file: string): object => new Module(readFileSync(join(dirname(addonPath), file)));

/** Returns the features of the engine that a module says it needs, in the section that the linker writes. */
function listFeatures(file: string): string {
  const [section] = Module.customSections(compile(file), 'target_features');
  return Buffer.from(section!).toString('latin1');
}

describe.skipIf(!isWebAssembly)(`modules of WebAssembly${isWebAssembly ? '' : ' (no WebAssembly)'}`, () => {
  it('have atomics and relaxed SIMD only where they are asked for', () => {
    expect(listFeatures('mtl_kernels.wasm')).toContain('atomics');
    expect(listFeatures('mtl_kernels.wasm')).not.toContain('relaxed-simd');
    const single = listFeatures('mtl_kernels_single.wasm');
    expect(single).toContain('simd128');
    expect(single).not.toMatch(/atomics|relaxed-simd|shared-mem/);
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
    const load = (memoryBytes: number) =>
      instantiateKernels({
        module: compile('mtl_kernels_single.wasm'),
        numProcessors: 1,
        print: () => {},
        memoryBytes,
      });
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
