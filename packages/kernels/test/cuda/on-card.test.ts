import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { findGpu } from '../../src/index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-on-card-'));
afterAll(() => rmSync(directory, { recursive: true }));

describe.skipIf(!findGpu().isEmulated)('on-card.mjs, where MTL_CUDA_LIBRARY names the emulation', () => {
  it('refuses it unless it was asked for: results would claim a card', () => {
    const script = fileURLToPath(new URL('../../../../tooling/cuda/on-card.mjs', import.meta.url));
    const args = [script, 'tests', '--out', directory];
    const { status, stderr, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stderr).toContain('names the emulation, which is no card');
    expect(status).toBe(1);
    expect(stdout).not.toContain('== tests');
  });
});
