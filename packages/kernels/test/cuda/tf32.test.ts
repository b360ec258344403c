import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { typescriptFlags } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { findGpu } from '../../src/internal/index.js';

const { problem, title, isEmulated } = findGpu();
// The library may use TF32 where it is allowed, and does for matmuls that fill a GPU; small matmuls may get a
// kernel without matrix units. Under emulation every size uses TF32.
const size = isEmulated ? 16 : 2048;

function matmulValues(allowTf32: boolean): number[] {
  const script = fileURLToPath(new URL('tf32-alone.ts', import.meta.url));
  const args = [...typescriptFlags, script, String(size), String(allowTf32)];
  const { status, stderr, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    timeout: 120_000,
  });
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout) as number[];
}

describe.skipIf(problem !== undefined)(`matmuls of float32 (${title})`, () => {
  // TF32 rounds off 13 bits of the mantissa, up or down: its factors are 1, while the float32 product is
  // slightly more than 1 + 2^-11. Sums of equal terms are exact in TF32, and within 2^-24 of each of at most
  // 2048 in float32.
  it('are in float32 unless TF32 is allowed', () => {
    for (const value of matmulValues(false))
      expect(Math.abs(value - (1 + 2 ** -12) ** 2)).toBeLessThan(2 ** -13);
  });

  it('are in TF32 where it is', () => {
    expect(matmulValues(true)).toEqual([1, 1]);
  });
});
