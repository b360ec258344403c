import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import type * as ParityTraining from './parity-training.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.resetModules();
});

const load = async (): Promise<typeof ParityTraining> => {
  vi.resetModules();
  return await import('./parity-training.js');
};

it('PyTorch’s curves come from the file that MTL_PARITY_CURVES names: a wrong curve is out of bounds', async () => {
  const { fixture, lossDistance, bounds } = await load();
  const directory = mkdtempSync(join(tmpdir(), 'mtl-parity-'));
  const file = join(directory, 'curves.json');
  const kept = JSON.parse(readFileSync(new URL('../fixtures/gpt-parity.json', import.meta.url), 'utf8'));
  kept.float32.losses[2] += 2 * bounds.loss;
  writeFileSync(file, JSON.stringify(kept));
  vi.stubEnv('MTL_PARITY_CURVES', file);
  const named = await load();
  rmSync(directory, { recursive: true });
  expect(lossDistance(named.fixture.float32, fixture.float32)).toBeGreaterThan(bounds.loss);
  expect(named.recipe).toEqual(fixture.recipe);
});
