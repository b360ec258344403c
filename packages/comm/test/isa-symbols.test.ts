import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('no function is shared between the instruction sets', () => {
  const root = fileURLToPath(new URL('../../../', import.meta.url));
  const script = ['tooling/checks/check-isa-symbols.mjs', '--build-dir', 'packages/comm/build/Release'];
  const { stdout, stderr } = spawnSync('node', script, { cwd: root, encoding: 'utf8' });
  expect(stdout + stderr).toContain('share nothing between instruction sets');
});
