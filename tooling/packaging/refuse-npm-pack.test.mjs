import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
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
