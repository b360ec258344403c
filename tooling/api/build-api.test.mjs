import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildApi } from './build-api.mjs';

describe('buildApi', () => {
  let repository;
  beforeEach(() => {
    repository = mkdtempSync(join(tmpdir(), 'mtl-api-'));
    for (const name of ['shapes', 'units']) {
      const folder = join(repository, 'packages', name);
      mkdirSync(join(folder, 'src'), { recursive: true });
      const exports = { '.': { '@mtl/source': './src/index.ts' } };
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: `@mtl/${name}`, exports }));
      writeFileSync(join(folder, 'README.md'), `# ${name}\n\nIn [a file](src/index.ts).\n`);
      writeFileSync(join(folder, 'src/index.ts'), '/** In metres. */\nexport const unit = 1;\n');
    }
    const compilerOptions = { module: 'nodenext', target: 'es2022', types: [] };
    writeFileSync(
      join(repository, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, include: ['packages'] }),
    );
  });
  afterEach(() => rmSync(repository, { recursive: true, force: true }));

  const build = (source) => {
    writeFileSync(join(repository, 'packages/shapes/src/index.ts'), source);
    const [out, tsconfig] = [join(repository, 'out'), join(repository, 'tsconfig.json')];
    return buildApi({ repository, out, tsconfig, logLevel: 'Error' });
  };

  it('writes a page for a package, with its README, its names and its docstrings', async () => {
    const source =
      '/** Area in m^2.\n * @param side in m */\nexport function area(side: number) { return side ** 2; }\n';
    expect(await build(source)).toBe(true);
    const page = readFileSync(join(repository, 'out/functions/_mtl_shapes.area.html'), 'utf8');
    expect(page).toContain('Area in m^2.');
    expect(page).toContain('in m');
    expect(existsSync(join(repository, 'out/modules/_mtl_shapes.html'))).toBe(true);
    expect(readFileSync(join(repository, 'out/modules/_mtl_shapes.html'), 'utf8')).toContain('In a file.');
  });

  it('fails on a parameter that does not exist', async () => {
    const source =
      '/** Area.\n * @param edge in m */\nexport function area(side: number) { return side ** 2; }\n';
    expect(await build(source)).toBe(false);
  });
});
