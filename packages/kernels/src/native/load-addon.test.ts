import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadAddon, requireInstructionSet } from './load-addon.js';

describe('loadAddon', () => {
  const { platform } = process;
  afterEach(() => {
    vi.unstubAllEnvs();
    Object.defineProperty(process, 'platform', { value: platform });
  });

  it('lists what was tried and how to build the addon', () => {
    vi.stubEnv('MTL_KERNELS_ADDON', '/missing.node');
    expect(() => loadAddon()).toThrowError(
      expect.objectContaining({
        code: 'MTL_ADDON',
        message: expect.stringContaining('/missing.node'),
        remedy: expect.stringContaining('mtl-kernels-build'),
      }),
    );
  });

  it('refuses an unknown kind of kernels', () => {
    vi.stubEnv('MTL_KERNELS', 'webgpu');
    expect(() => loadAddon()).toThrowError(
      expect.objectContaining({
        code: 'MTL_ADDON',
        message: 'MTL_KERNELS is webgpu, expected native, wasm, wasm-single or wasm-relaxed',
      }),
    );
  });

  it('names an unsupported platform in place of a build that would fail there', () => {
    vi.stubEnv('MTL_KERNELS_ADDON', '/missing.node');
    Object.defineProperty(process, 'platform', { value: 'darwin' });
    expect(() => loadAddon()).toThrowError(
      expect.objectContaining({
        code: 'MTL_PLATFORM',
        message: expect.stringContaining('unsupported platform: darwin'),
        remedy: expect.stringContaining('docker run'),
      }),
    );
  });
});

describe('requireInstructionSet', () => {
  const host = { numThreads: 1, mostThreads: 8, multipliesBfloat16: false, onednnVersion: '3.7.2' } as const;

  it('accepts kernels that run here, also of a set that is not the preferred one', () => {
    const compiled = { ...host, compiledInstructionSets: ['avx2'], usableInstructionSets: ['avx2'] };
    for (const detectedInstructionSet of ['avx2', 'avx512'])
      requireInstructionSet({
        host: () => ({ ...compiled, detectedInstructionSet, instructionSet: 'avx2' }),
      });
  });

  it('refuses kernels that were compiled for a better processor alone', () => {
    const addon = {
      ...host,
      compiledInstructionSets: ['avx512'],
      usableInstructionSets: [],
      detectedInstructionSet: 'avx2',
      instructionSet: 'plain',
    };
    expect(() => requireInstructionSet({ host: () => addon })).toThrow(
      'compiled for avx512, which this processor does not have (its best instruction set is avx2)',
    );
  });
});
