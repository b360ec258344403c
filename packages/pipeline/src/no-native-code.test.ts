import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const source = fileURLToPath(new URL('.', import.meta.url));

/** What the source of a folder imports from other packages. */
function packagesOf(folder: string): string[] {
  return readdirSync(join(source, folder))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) => [...readFileSync(join(source, folder, file), 'utf8').matchAll(/ from '([^.'][^']*)'/g)])
    .map((match) => match[1]!);
}

describe('@mtl/pipeline/schedules', () => {
  it.each(['schedules', 'simulator', 'pictures'])('%s can be used without native code', (folder) => {
    expect(new Set(packagesOf(folder)).difference(new Set(['@mtl/errors']))).toEqual(new Set());
    for (const file of readdirSync(join(source, folder)).filter((name) => !name.endsWith('.test.ts'))) {
      // Nothing from beside the three folders either: what stands there may import the kernels.
      const text = readFileSync(join(source, folder, file), 'utf8');
      for (const [, path] of text.matchAll(/ from '(\.[^']*)'/g)) {
        expect(path).toMatch(/^\.\/|^\.\.\/(schedules|simulator|pictures)\//);
      }
    }
  });
});
