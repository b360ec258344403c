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

  it('is refused, with the reason and the remedy', () => {
    const cwd = join(root, 'packages/data');
    const { status, stdout, output } = run('npm', ['pack', '--dry-run'], { cwd });
    expect(output).toContain('error[MTL_PACK]: npm leaves "workspace:*"');
    expect(output).toContain('package.json of @mtl/data');
    expect(output).toContain('remedy: npx pnpm pack');
    expect(status).not.toBe(0);
    expect(stdout).not.toContain('.tgz');
  });
});
