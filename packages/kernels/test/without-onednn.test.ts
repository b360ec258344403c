import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'mtl-without-onednn-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** Returns the functions of namespace mtl that an object file defines for others, sorted. */
const listFunctions = (object: string): string[] =>
  [...run('nm', '--demangle', '--defined-only', object).matchAll(/ T (mtl::.*)$/gm)]
    .map(([, name]) => name!)
    .sort();

it('a build without oneDNN has the functions that one with it takes from there', () => {
  const object = join(folder, 'onednn_absent.o');
  const source = 'native/backends/cpu/onednn_absent.cc';
  run(
    'c++',
    '-std=c++17',
    '-Wall',
    '-Wextra',
    '-Werror',
    '-I',
    'native',
    '-I',
    'native/include',
    '-c',
    source,
    '-o',
    object,
  );
  const built = 'build/Release/CMakeFiles/mtl_core.dir/native/backends/cpu/onednn.cc.o';
  expect(listFunctions(object)).toEqual(listFunctions(built));
  expect(listFunctions(object)).toHaveLength(4);
});
