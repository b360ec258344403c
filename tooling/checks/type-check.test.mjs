import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root, run } from '../packaging/packed-packages.mjs';

describe('the type check', () => {
  it('holds every TypeScript file of packages and apps in its one program', () => {
    const shown = run('tsc', ['--showConfig', '-p', 'tooling/tsconfig/everything.json']);
    expect(shown.status, shown.output).toBe(0);
    const pathOf = (file) => relative(root, join(root, 'tooling', 'tsconfig', file));
    const held = new Set(JSON.parse(shown.stdout).files.map(pathOf));
    const { stdout } = run('git', [
      'ls-files',
      '--cached',
      '--others',
      '--exclude-standard',
      'packages',
      'apps',
    ]);
    const files = stdout.split('\n').filter((path) => path.endsWith('.ts'));
    // the three lines of configuration that each has for tsup and vitest are checked by being run
    const wanted = files.filter((path) => !/^\w+\/[^/]+\/(tsup|vitest)\.config\.ts$/.test(path));
    expect(wanted.length).toBeGreaterThan(500);
    expect(wanted.filter((path) => !held.has(path))).toEqual([]);
  });
});
