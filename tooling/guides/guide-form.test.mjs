import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../docs/guides', import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith('.md'));
const maximumLines = 200;

it.each(files)('docs/guides/%s is short, states its time and is listed', (name) => {
  const text = readFileSync(join(folder, name), 'utf8');
  expect(text.split('\n').length - 1).toBeLessThanOrEqual(maximumLines);
  if (name === 'README.md') return;
  expect(text).toMatch(/^\*\*Time\.\*\* [^\n]*\d+ seconds/m);
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain(`](${name})`);
});
