import { expect, it, vi } from 'vitest';

it('computes with the kernels that it is given, once', async () => {
  vi.resetModules();
  const { useKernels } = await import('./index.js');
  const { hostInformation } = await import('../host.js');
  const wrong = expect.objectContaining({ code: 'MTL_ARGUMENT' });
  expect(() => useKernels(Promise.resolve())).toThrow(wrong);
  useKernels({ host: () => ({ numThreads: 3 }) });
  expect(hostInformation()).toEqual({ numThreads: 3, addonPath: 'mtl_kernels.wasm', isWebAssembly: true });
  expect(() => useKernels({ host: () => ({}) })).toThrow(wrong);
});
