import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';

const script = fileURLToPath(new URL('run-native-tests.mjs', import.meta.url));
let folder;
const read = (file) => readFileSync(join(folder.path, file), 'utf8');

beforeAll(() => {
  folder = testFolder('native-tests');
});
afterAll(() => folder.remove());

it('notes what failed and what was skipped, and runs no program after a failing one', () => {
  folder.writeProgram('build/first', "echo 'SKIPPED a: no header'; echo 'ok   b'");
  folder.writeProgram('build/second', "echo 'FAIL c'; exit 3");
  folder.writeProgram('build/third', "echo 'FAIL d'");
  const { status } = spawnSync(process.execPath, [script, 'build/first', 'build/second', 'build/third'], {
    cwd: folder.path,
  });
  expect(status).toBe(3);
  expect(read('build/skipped.txt')).toBe('first: a: no header\n');
  expect(read('build/failed.txt')).toBe('second: c\nsecond ended with status 3\n');
});

it('notes a program that ends by a signal', () => {
  folder.writeProgram('build/killed', 'kill -9 $$');
  const { status } = spawnSync(process.execPath, [script, 'build/killed'], { cwd: folder.path });
  expect(status).toBe(1);
  expect(read('build/failed.txt')).toContain('killed ended with SIGKILL\n');
});

it('gives a program the texts of --only, which select its tests by name', () => {
  folder.writeProgram('build/chosen', 'echo "FAIL $*"; exit 1');
  const { status } = spawnSync(process.execPath, [script, '--only', 'views,arena', 'build/chosen'], {
    cwd: folder.path,
  });
  expect(status).toBe(1);
  expect(read('build/failed.txt')).toContain('chosen: views arena\n');
});
