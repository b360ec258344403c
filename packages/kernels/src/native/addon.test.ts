import { describe, expect, it, vi } from 'vitest';
import { tensorApi } from './addon.js';

vi.mock('./load-addon.js', () => ({
  loadAddon: () => ({ addon: { tensorApi: {} }, path: 'mtl_kernels.wasm', isWebAssembly: true }),
}));

describe('tensorApi', () => {
  it('refuses kernels of WebAssembly: ranks in processes need native ones', () => {
    expect(tensorApi).toThrowError(
      expect.objectContaining({
        code: 'MTL_WEBASSEMBLY',
        exitCode: 2,
        remedy: expect.stringMatching(/^train in one process; .*mtl-kernels-build.*unset MTL_KERNELS$/),
      }),
    );
  });
});
