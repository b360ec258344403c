import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { testDirectory } from './support/test-directory.js';

it('the command reports that it is not built yet, and runs when it is', () => {
  const directory = testDirectory();
  for (const name of ['bin', 'dist']) mkdirSync(join(directory, name));
  const bin = join(directory, 'bin/mtl.mjs');
  copyFileSync(fileURLToPath(new URL('../bin/mtl.mjs', import.meta.url)), bin);
  const run = () => spawnSync(process.execPath, [bin, 'doctor'], { encoding: 'utf8' });
  expect(run()).toMatchObject({
    status: 2,
    stderr: 'error[MTL_BOOTSTRAP]: the command mtl is not built yet\n  remedy: npm run bootstrap\n',
  });
  writeFileSync(join(directory, 'package.json'), '{"type": "module"}');
  writeFileSync(join(directory, 'dist/main.js'), 'console.log(process.argv[2]);\n');
  expect(run()).toMatchObject({ status: 0, stdout: 'doctor\n' });
});

it.each([['--help'], ['help', 'doctor']])(
  'prints its help before it is built: %s',
  { tags: ['whole'] },
  (...words) => {
    const directory = testDirectory();
    mkdirSync(join(directory, 'bin'));
    const bin = join(directory, 'bin/mtl.mjs');
    copyFileSync(fileURLToPath(new URL('../bin/mtl.mjs', import.meta.url)), bin);
    for (const name of ['src', 'node_modules'])
      symlinkSync(fileURLToPath(new URL(`../${name}`, import.meta.url)), join(directory, name));
    const { status, stdout, stderr } = spawnSync(process.execPath, [bin, ...words], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/^usage: mtl/i);
  },
);
