import { KernelError } from '@mtl/errors';
import { expect, it } from 'vitest';
import { explainUncountable } from './explain-uncountable.js';

const full = new KernelError('MTL_OUT_OF_MEMORY', 'no block of memory has 5 bytes', { remedy: 'in general' });
const ofRank = { rank: 3, numParameters: 1_200_000_000 };

it('says which rank is beyond the 4 GiB of WebAssembly, and what to do', () => {
  expect(explainUncountable(full, ofRank, { isWebAssembly: true })).toMatchObject({
    code: 'MTL_OUT_OF_MEMORY',
    message: expect.stringMatching(/^rank 3, with 1,200,000,000 parameters, .*4 GiB/),
    remedy: expect.stringMatching(/native kernels.*more ranks/),
    cause: full,
  });
});

it('leaves other errors alone, and errors of native kernels', () => {
  expect(explainUncountable(full, ofRank, { isWebAssembly: false })).toBe(full);
  const other = new Error('other');
  expect(explainUncountable(other, ofRank, { isWebAssembly: true })).toBe(other);
});
