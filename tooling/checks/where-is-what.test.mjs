import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/architecture.md', root), 'utf8');
const table = /## Where is what\n[\s\S]*?(\n\|[\s\S]*?)\n\n/.exec(page)?.[1] ?? '';
const rows = table.split('\n').filter((line) => line.includes(']('));

it.each([
  ['loss', 'gradient', 'flag', 'checkpoint', 'experts', 'ring'],
  ['tokenizer', 'chat template', 'schedule', 'plan'],
])('has a row for %s, %s, %s, %s ...', (...topics) => {
  for (const topic of topics) expect(rows.some((row) => row.split('|')[1].includes(topic))).toBe(true);
});

it('names functions that the linked files contain', () => {
  // `name` in [file](path): the name of a method begins with its class
  const named = [...table.matchAll(/`([\w.]+)`(?: in|, called by)? \[[^\]]*\]\(\.\.\/([^)]+)\)/g)];
  expect(named.length).toBeGreaterThan(8);
  for (const [, name, path] of named) {
    const text = readFileSync(new URL(path, root), 'utf8');
    for (const part of name.split('.'))
      expect(text, `${name} in ${path}`).toMatch(new RegExp(`\\b${part}\\b`));
  }
  for (const [, path] of table.matchAll(/\]\(\.\.\/([^)]+)\)/g))
    expect(existsSync(fileURLToPath(new URL(path, root))), path).toBe(true);
});
