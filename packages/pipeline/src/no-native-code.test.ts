import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const source = fileURLToPath(new URL('.', import.meta.url));

describe('@mtl/pipeline/schedules', () => {
  it.each(['schedules', 'simulator', 'pictures', 'measured'])('%s stays free of native code', (folder) => {
    const files = readdirSync(join(source, folder)).filter((file) => !file.endsWith('.test.ts'));
    const imports = files.flatMap((file) => {
      const text = readFileSync(join(source, folder, file), 'utf8');
      return [...text.matchAll(/ from '([^']*)'/g)].map(([, path]) => path!);
    });
    expect(imports.length).toBeGreaterThan(0);
    // files outside these folders may import the kernels
    const allowed = /^@mtl\/errors$|^\.\/[^/]+$|^\.\.\/(schedules|simulator|pictures|measured)\/[^/]+$/;
    expect(imports.filter((path) => !allowed.test(path))).toEqual([]);
  });
});
