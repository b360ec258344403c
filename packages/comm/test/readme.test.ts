import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { typescriptFlags } from '@mtl/tooling/typescript-threads';
import { expect, it } from 'vitest';

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

it('the example of the README prints what it says', () => {
  const readme = readFileSync(at('README.md'), 'utf8');
  const [, code, output] = /^```ts\n([\s\S]*?)^```\n\n```text\n([\s\S]*?)^```$/m.exec(readme)!;
  expect(code).toContain('runInMemoryRanks(');
  // The example runs with the sources of this package; another test runs it with the packed package.
  mkdirSync(at('build'), { recursive: true });
  writeFileSync(at('build/readme-example.ts'), code!);
  const printed = execFileSync(process.execPath, [...typescriptFlags, at('build/readme-example.ts')], {
    encoding: 'utf8',
  });
  expect(printed).toBe(output);
});
