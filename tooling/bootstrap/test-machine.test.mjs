import { afterAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { machineDigest } from './test-machine.mjs';

const { path: folder, writeProgram, remove } = testFolder('machine');
const processors = [{ model: 'one' }, { model: 'one' }];
const digest = (change) => machineDigest({ environment: { PATH: folder }, processors, ...change });
afterAll(remove);

it('is the same for the same machine', () => {
  expect(digest({})).toMatch(/^[0-9a-f]{16}$/);
  expect(digest({ environment: { PATH: folder, EDITOR: 'vi' } })).toBe(digest({}));
});

it('changes with processors, with variables of this project and with programs that tests start', () => {
  const before = digest({});
  expect(digest({ processors: [{ model: 'other' }] })).not.toBe(before);
  expect(digest({ environment: { PATH: folder, MTL_CUDA_LIBRARY: 'x.so' } })).not.toBe(before);
  writeProgram('srun', 'true');
  expect(digest({})).not.toBe(before);
});
