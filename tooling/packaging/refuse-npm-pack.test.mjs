import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { publishedPackages, root, run } from './packed-packages.mjs';

const script = 'node ../../tooling/packaging/refuse-npm-pack.mjs';
const packages = publishedPackages();

describe('npm pack', () => {
  it.each([...packages.keys()])('%s checks what packs it', (name) => {
    expect(packages.get(name).scripts.prepack).toBe(script);
  });

  it('is what a new package refuses, too', () => {
    expect(readFileSync(join(root, 'tooling/scaffold/new-package.mjs'), 'utf8')).toContain(script);
  });

  it.each([
    ['', {}],
    [', started by a script of pnpm', { npm_config_user_agent: 'pnpm/10.0.0 npm/? node/v20.20.2 linux x64' }],
  ])('is refused, with the reason and the remedy%s', (_, variables) => {
    const cwd = join(root, 'packages/data');
    const env = { ...process.env, ...variables };
    const { status, stdout, output } = run('npm', ['pack', '--dry-run'], { cwd, env });
    expect(output).toContain('error[MTL_PACK]: npm leaves "workspace:*"');
    expect(output).toContain('package.json of @mtl/data');
    expect(output).toContain('remedy: npx pnpm pack');
    expect(status).not.toBe(0);
    expect(stdout).not.toContain('.tgz');
  });
});

describe('a package without declarations', () => {
  const folder = testFolder('prepack');
  afterAll(() => folder.remove());
  const prepack = () =>
    run(process.execPath, [join(root, 'tooling/packaging/refuse-npm-pack.mjs')], {
      cwd: folder.path,
      env: { npm_execpath: '/bin/pnpm.cjs' },
    });

  it('is not packed', () => {
    const exports = {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './data': './data.json',
    };
    folder.write('package.json', JSON.stringify({ name: '@mtl/example', publishConfig: { exports } }));
    const { status, output } = prepack();
    expect(output).toBe(
      'error[MTL_PACK]: @mtl/example is built without ./dist/index.d.ts\n  remedy: npm run dev -- build:types, which compiles nothing native\n',
    );
    expect(status).toBe(2);
    folder.write('dist/index.d.ts', '');
    expect(prepack()).toEqual({ status: 0, stdout: '', output: '' });
  });
});
