import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root, run } from '../packaging/packed-packages.mjs';
import { testFolder } from '../processes/test-folder.mjs';

describe('the type check', () => {
  it('holds every TypeScript file of packages and apps, in one program but for a page of a browser', () => {
    const listFiles = (directory, file) => {
      const shown = run('tsc', ['--showConfig', '-p', join(directory, file)]);
      expect(shown.status, shown.output).toBe(0);
      return JSON.parse(shown.stdout).files.map((path) => relative(root, join(root, directory, path)));
    };
    const held = new Set([
      ...listFiles('.', 'tsconfig.json'),
      ...listFiles('packages/dashboard/page', 'tsconfig.json'),
    ]);
    const { stdout } = run('git', [
      'ls-files',
      '--cached',
      '--others',
      '--exclude-standard',
      'packages',
      'apps',
    ]);
    const files = stdout.split('\n').filter((path) => path.endsWith('.ts'));
    // the configuration files of tsup and vitest are not type checked here, because running tsup and vitest
    // is a sufficient check
    const wanted = files.filter((path) => !/^\w+\/[^/]+\/(tsup|vitest)\.config\.ts$/.test(path));
    expect(wanted.length).toBeGreaterThan(500);
    expect(wanted.filter((path) => !held.has(path))).toEqual([]);
  });

  it('finds types that declarations of a package could not name', () => {
    const folder = testFolder('declarations');
    try {
      folder.write(
        'part.mts',
        'interface Hidden { readonly size: number }\nexport const part: Hidden = { size: 1 };\n',
      );
      folder.write(
        'parts.mts',
        "import { part } from './part.mjs';\nexport const parts = [part] as const;\n",
      );
      const compilerOptions = { types: [] };
      folder.write(
        'tsconfig.json',
        JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include: ['*.mts'] }),
      );
      const { status, output } = run('tsc', ['-p', folder.path]);
      expect(output).toMatch(/TS4023: Exported variable 'parts' has or is using name 'Hidden'/);
      expect(status).not.toBe(0);
    } finally {
      folder.remove();
    }
  });
});
