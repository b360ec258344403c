import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { isConfigurationAlone } from './is-configuration-alone.js';

const root = mkdtempSync(join(tmpdir(), 'mtl-alone-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

it('is true for a commit in the cache of the Hub until its weights are there', () => {
  const snapshot = join(root, 'models--org--name', 'snapshots', 'a'.repeat(40));
  mkdirSync(snapshot, { recursive: true });
  expect(isConfigurationAlone(snapshot)).toBe(true);
  writeFileSync(join(snapshot, 'model.safetensors.index.json'), '{}');
  expect(isConfigurationAlone(snapshot)).toBe(false);
});

it('is false for every other directory, whose missing weights are an error', () => {
  expect(isConfigurationAlone(root)).toBe(false);
});
