import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { digestOfDirectory } from './digest-of-directory.mjs';

let directory;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-digest-'));
  mkdirSync(join(directory, 'folder'));
  writeFileSync(join(directory, 'one'), '1');
  writeFileSync(join(directory, 'folder/two'), '22');
});
afterEach(() => rmSync(directory, { recursive: true }));

it('tells apart files with other bytes, other names or in other folders', () => {
  const digests = [digestOfDirectory(directory)];
  const changes = [
    () => writeFileSync(join(directory, 'folder/two'), '23'),
    () => renameSync(join(directory, 'folder/two'), join(directory, 'folder/three')),
    () => renameSync(join(directory, 'folder/three'), join(directory, 'three')),
    () => writeFileSync(join(directory, 'empty'), ''),
  ];
  for (const change of changes) {
    change();
    digests.push(digestOfDirectory(directory));
  }
  expect(new Set(digests).size).toBe(5);
  expect(digestOfDirectory(directory)).toBe(digests[4]);
});
