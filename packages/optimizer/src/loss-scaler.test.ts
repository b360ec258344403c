import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LossScaler, type LossScalerOptions } from './loss-scaler.js';

/**
 * Updates the scaler with a history of steps, in which `.` is a step without overflow and `x` a step with
 * overflow. Returns the scale after each step.
 */
function scalesAfter(scaler: LossScaler, history: string): readonly number[] {
  return [...history].map((step) => {
    scaler.update(step === 'x');
    return scaler.scale;
  });
}

describe('a dynamic LossScaler', () => {
  it("has Megatron's defaults", () => {
    const scaler = new LossScaler({ kind: 'dynamic' });
    expect(scaler.scale).toBe(2 ** 32);
    expect(scaler.inverseScale).toBe(2 ** -32);
    scaler.update(true);
    expect(scaler.scale).toBe(2 ** 32); // The first overflow is forgiven,
    scaler.update(true);
    expect(scaler.scale).toBe(2 ** 31); // the second is not.
    for (let step = 0; step < 999; step++) scaler.update(false);
    expect(scaler.scale).toBe(2 ** 31);
    scaler.update(false);
    expect(scaler.scale).toBe(2 ** 32);
  });

  it.each<[string, string, readonly number[]]>([
    ['grows after each window without overflow', '......', [8, 8, 16, 16, 16, 32]],
    ['forgets the window at an overflow', '..x...', [8, 8, 8, 8, 8, 16]],
    ['forgives one overflow per window only', '.x.x.x', [8, 8, 8, 4, 4, 2]],
    ['lowers at every overflow once hysteresis is used up', 'xxxx', [8, 4, 2, 1]],
    ['restores the hysteresis when it grows', 'xx...xx', [8, 4, 4, 4, 8, 8, 4]],
    ['never goes below the minimum', 'xxxxxxx', [8, 4, 2, 1, 1, 1, 1]],
  ])('%s (%s)', (_, history, scales) => {
    const scaler = new LossScaler({ kind: 'dynamic', initialScale: 8, growthInterval: 3 });
    expect(scalesAfter(scaler, history)).toEqual(scales);
  });

  it('says when it cannot go lower', () => {
    const scaler = new LossScaler({ kind: 'dynamic', initialScale: 2, hysteresis: 1 });
    expect(scaler.isAtMinimum).toBe(false);
    scaler.update(true);
    expect(scaler.isAtMinimum).toBe(true);
  });

  it('keeps the last finite scale instead of growing to infinity', () => {
    const scaler = new LossScaler({ kind: 'dynamic', initialScale: 2 ** 127, growthInterval: 1 });
    scaler.update(false);
    expect(scaler.scale).toBe(2 ** 127);
  });

  it('goes on from a saved state as if never stopped', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean()), fc.array(fc.boolean()), (before, after) => {
        const options = { kind: 'dynamic', initialScale: 2 ** 10, growthInterval: 3 } as const;
        const whole = new LossScaler(options);
        for (const foundInf of before) whole.update(foundInf);
        const resumed = new LossScaler(options);
        resumed.loadState(JSON.parse(JSON.stringify(whole.state())));
        for (const foundInf of after) {
          whole.update(foundInf);
          resumed.update(foundInf);
          expect(resumed.state()).toEqual(whole.state());
        }
      }),
    );
  });

  it('stays a power of two between its bounds', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 500 }), (history) => {
        const scaler = new LossScaler({ kind: 'dynamic', growthInterval: 1 });
        for (const foundInf of history) scaler.update(foundInf);
        expect(Number.isInteger(Math.log2(scaler.scale))).toBe(true);
        expect(scaler.scale).toBeGreaterThanOrEqual(1);
        expect(scaler.scale * scaler.inverseScale).toBe(1);
      }),
    );
  });
});

describe('a constant LossScaler', () => {
  it('never changes, whatever happens or is loaded', () => {
    const scaler = new LossScaler({ kind: 'constant', scale: 128 });
    expect(scalesAfter(scaler, 'xx.')).toEqual([128, 128, 128]);
    scaler.loadState({ scale: 4, growthTracker: 1, hysteresisTracker: 1 });
    expect(scaler.scale).toBe(128);
    expect(scaler.isAtMinimum).toBe(false);
  });

  it('is 1 unless given', () => {
    expect(new LossScaler({ kind: 'constant' }).scale).toBe(1);
  });
});

describe('a LossScaler that cannot be', () => {
  it.each<[LossScalerOptions, RegExp]>([
    [{ kind: 'constant', scale: 0 }, /^scale is 0/],
    [{ kind: 'constant', scale: 1e39 }, /^scale is 1e\+39/],
    [{ kind: 'dynamic', initialScale: 1, minScale: 2 }, /minScale 2 is above initialScale 1/],
    [{ kind: 'dynamic', minScale: 0 }, /minScale is 0/],
    [{ kind: 'fixed' } as unknown as LossScalerOptions, /unknown kind fixed/],
    [{ kind: 'dynamic', growthFactor: 1 }, /growthFactor is 1/],
    [{ kind: 'dynamic', backoffFactor: 1 }, /backoffFactor is 1/],
    [{ kind: 'dynamic', growthInterval: 0 }, /growthInterval is 0/],
    [{ kind: 'dynamic', hysteresis: 1.5 }, /hysteresis is 1.5/],
  ])('is refused: %o', (options, message) => {
    expect(() => new LossScaler(options)).toThrow(
      expect.objectContaining({ code: 'MTL_LOSS_SCALE', message: expect.stringMatching(message) }),
    );
  });

  it('refuses a torn state', () => {
    const scaler = new LossScaler({ kind: 'dynamic' });
    const torn = { scale: Number.NaN, growthTracker: 0, hysteresisTracker: 2 };
    expect(() => scaler.loadState(torn)).toThrow(/loss scale in the checkpoint is NaN/);
  });
});
