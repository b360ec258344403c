import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { findGpu } from '../../src/internal/index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-run-on-gpu-'));
afterAll(() => rmSync(directory, { recursive: true }));

describe.skipIf(!findGpu().isEmulated)('run-on-gpu.mjs, where MTL_CUDA_LIBRARY names the emulation', () => {
  it('refuses it without --emulation: results would claim a GPU', () => {
    const script = fileURLToPath(new URL('../../../../tooling/cuda/run-on-gpu.mjs', import.meta.url));
    const args = [script, 'tests', '--out', directory];
    const { status, stderr, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stderr).toContain('names the emulation, which is no GPU');
    expect(status).toBe(1);
    expect(stdout).not.toContain('== tests');
  });
});
