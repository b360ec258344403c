import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { cublasltWorkspaceBytes } from './open-cuda.js';

it('is what the native code allocates', () => {
  const source = new URL('../../native/backends/cuda/cublaslt/cublaslt.cc', import.meta.url);
  const mebibytes = cublasltWorkspaceBytes / 2 ** 20;
  expect(readFileSync(source, 'utf8')).toContain(`kWorkspaceBytes = size_t{${mebibytes}} << 20;`);
});
