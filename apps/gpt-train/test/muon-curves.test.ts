import { readFileSync } from 'node:fs';
import type { MuonOptions } from '@mtl/optimizer';
import { beforeAll, describe, expect, it } from 'vitest';
import { train } from './parity-training.js';

type Curve = readonly number[];

/**
 * Losses of 24 steps with torch.optim.Muon, made by tooling/fixtures/muon_curves.py. PyTorch orthogonalizes
 * in bfloat16, in models of float64 and float32, too (`stock`); in `exact` and `float32` it keeps the dtype.
 */
const pytorch = JSON.parse(
  readFileSync(new URL('../fixtures/muon-curves.json', import.meta.url), 'utf8'),
) as Readonly<Record<'exact' | 'stockFloat64' | 'float32' | 'stockFloat32', Curve>> & {
  readonly momentum: number;
  readonly steps: number;
};

const largest = (own: Curve, reference: Curve): number =>
  Math.max(...own.map((loss, step) => Math.abs(loss / reference[step]! - 1)));

async function computeLosses(dtype: MuonOptions['dtype']): Promise<Curve> {
  const { losses } = await train({
    dtype: 'float32',
    steps: pytorch.steps,
    muon: {
      momentum: pytorch.momentum,
      nesterov: true,
      scaleMode: 'spectral',
      extraScaleFactor: 0.2,
      coefficientType: 'simple',
      numSteps: 5,
      splitQkv: true,
      dtype,
    },
  });
  return losses;
}

// bound for 24 steps of float32 rounding; measured: 4e-8, and 2e-7 for PyTorch in float32
const float32Bound = 5e-7;
// bound for bfloat16: every step rounds to 2^-9, and orthogonalization amplifies this rounding in the
// directions of small singular values; measured: 2e-5, and 1e-5 for PyTorch in models of float32 and of
// float64
const bfloat16Bound = 1e-4;

describe('24 steps of a float32 GPT with Muon against torch.optim.Muon', () => {
  let float32: Curve;
  let bfloat16: Curve;
  beforeAll(async () => {
    float32 = await computeLosses('float32');
    bfloat16 = await computeLosses('bfloat16');
  });

  it('orthogonalized in float32 stays on the float64 curve, as PyTorch in float32 does', () => {
    expect(largest(float32, pytorch.exact)).toBeLessThan(float32Bound);
    expect(largest(pytorch.float32, pytorch.exact)).toBeLessThan(float32Bound);
  });

  it('orthogonalized in bfloat16 stays as near to the float64 curve as PyTorch, which rounds to bfloat16', () => {
    for (const curve of [bfloat16, pytorch.stockFloat64, pytorch.stockFloat32]) {
      expect(largest(curve, pytorch.exact)).toBeLessThan(bfloat16Bound);
    }
  });

  it('leaves the float64 curve in bfloat16, here and in PyTorch', () => {
    for (const curve of [bfloat16, pytorch.stockFloat64, pytorch.stockFloat32]) {
      expect(largest(curve, pytorch.exact)).toBeGreaterThan(10 * float32Bound);
    }
  });
});
