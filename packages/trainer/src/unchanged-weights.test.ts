import { describe, expect, it } from 'vitest';
import { UnchangedWeights } from './unchanged-weights.js';

const overflow = { skipped: true, gradNorm: Number.POSITIVE_INFINITY };
const leftOut = { skipped: true, isLeftOut: true, gradNorm: Number.NaN } as const;
const refused = { skipped: true, gradNorm: 1e3 };
const update = { skipped: false, gradNorm: 1 };

describe('UnchangedWeights', () => {
  it('is not so before the first step, nor after one that changed them', () => {
    const unchanged = new UnchangedWeights({ scale: 8, isDynamic: true });
    expect(unchanged.isAll).toBe(false);
    unchanged.step(overflow);
    expect(unchanged.isAll).toBe(true);
    for (const step of [update, overflow]) unchanged.step(step);
    expect(unchanged.isAll).toBe(false);
  });

  it('says by how much the loss scale fell, and which one to begin with', () => {
    const scaler = { scale: 2 ** 32, isDynamic: true };
    const unchanged = new UnchangedWeights(scaler);
    for (let step = 0; step < 3; step++) unchanged.step(overflow);
    scaler.scale = 2 ** 30;
    const { code, message, remedy } = unchanged.error();
    expect(code).toBe('MTL_NO_UPDATE');
    expect(message).toBe(
      'none of the 3 steps changed the weights: the gradients of 3 overflowed, and the loss scale fell from 4294967296 to 1073741824',
    );
    expect(remedy).toBe('pass --initial-loss-scale 65536, train for more steps, or use --bf16');
    scaler.scale = 1024;
    expect(unchanged.error().remedy).toContain('--initial-loss-scale 1024,');
  });

  it('tells steps that were refused or left out from those that overflowed', () => {
    const unchanged = new UnchangedWeights({ scale: 1, isDynamic: false });
    for (const step of [leftOut, refused, refused]) unchanged.step(step);
    const { message, remedy } = unchanged.error();
    expect(message).toMatch(
      /none of the 3 steps .*: 1 are left out by --iterations-to-skip; 2 had a loss or/,
    );
    expect(remedy).toMatch(/^name fewer .*; raise --grad-norm-skip-threshold/);
  });
});
