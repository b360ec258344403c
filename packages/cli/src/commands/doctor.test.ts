import { describe, expect, it } from 'vitest';
import { instructionSetFinding, kernelsFinding } from './doctor.js';

const all = ['amx', 'avx512', 'avx2', 'sse4', 'plain'];

describe('instructionSetFinding', () => {
  it('names the instruction set that is used', () => {
    const best = {
      detectedInstructionSet: 'avx512',
      compiledInstructionSets: all,
      usableInstructionSets: all.slice(1),
    };
    expect(instructionSetFinding({ ...best, instructionSet: 'avx512' })).toEqual({
      name: 'instruction set',
      status: 'ok',
      value: 'avx512',
    });
    expect(instructionSetFinding({ ...best, instructionSet: 'avx2' }).value).toBe('avx512 (avx2 was chosen)');
  });

  it('tells how to compile for a processor that has more than the build', () => {
    expect(
      instructionSetFinding({
        detectedInstructionSet: 'avx512',
        compiledInstructionSets: ['avx2'],
        usableInstructionSets: ['avx2'],
        instructionSet: 'avx2',
      }),
    ).toEqual({
      name: 'instruction set',
      status: 'note',
      value: 'avx512, but the kernels were compiled for avx2: avx2 is used',
      remedy: 'compile them for this machine, too: npm run build:native',
    });
  });

  it('tells that training is slow without AVX2', () => {
    for (const set of ['sse4', 'plain']) {
      expect(
        instructionSetFinding({
          detectedInstructionSet: set,
          compiledInstructionSets: all,
          usableInstructionSets: all.slice(all.indexOf(set)),
          instructionSet: set,
        }),
      ).toMatchObject({ status: 'note', value: set, remedy: expect.stringContaining('AVX2') });
    }
  });
});

describe('kernelsFinding', () => {
  it('tells what native kernels would gain where they are WebAssembly', () => {
    expect(kernelsFinding({ addonPath: 'a.node', isWebAssembly: false, mostThreads: 8 })).toEqual({
      name: 'kernels',
      status: 'ok',
      value: 'native, a.node',
    });
    const webAssembly = { addonPath: 'a.wasm', isWebAssembly: true };
    expect(kernelsFinding({ ...webAssembly, mostThreads: 8 })).toMatchObject({
      status: 'note',
      value: 'WebAssembly, a.wasm: one process, 4 GiB for tensors',
      remedy: expect.stringContaining('mtl-kernels-build'),
    });
    expect(kernelsFinding({ ...webAssembly, mostThreads: 1 }).value).toContain(
      'one process, one thread, 4 GiB',
    );
  });
});
