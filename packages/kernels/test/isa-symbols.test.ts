import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

function check(...args: string[]): string {
  const script = 'tooling/checks/check-isa-symbols.mjs';
  const { stdout, stderr } = spawnSync('node', [script, ...args], { cwd: root, encoding: 'utf8' });
  return stdout + stderr;
}

it('no function is shared between the instruction sets, and the check would see one', () => {
  expect(check('--self-test')).toContain('would be found');
  expect(check()).toContain('share nothing between instruction sets');
  expect(check('--build-dir', 'packages/kernels/src')).toContain('error[MTL_CHECK]: no objects');
});
