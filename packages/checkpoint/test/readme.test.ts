import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { bundle } from './support/bundle.js';

const packagePath = fileURLToPath(new URL('..', import.meta.url));

it('the example of the README prints what the README says', async () => {
  const readme = await readFile(join(packagePath, 'README.md'), 'utf8');
  const example = /```ts\n(.*?)```/s.exec(readme)![1]!;
  const printed = /It prints `(.*?)`/.exec(readme)![1]!;
  // Inside the package, where its own name resolves to it.
  await mkdir(join(packagePath, 'build'), { recursive: true });
  const directory = await mkdtemp(join(packagePath, 'build', 'readme-'));
  try {
    await writeFile(join(directory, 'example.ts'), example);
    await bundle({ entry: join(directory, 'example.ts'), outDir: join(directory, 'dist') });
    await cp(join(packagePath, 'package.json'), join(directory, 'package.json'));
    const run = spawnSync(process.execPath, [join(directory, 'dist', 'example.js')], { encoding: 'utf8' });
    expect(run.stderr).toBe('');
    expect(run.stdout.trim()).toBe(printed);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
