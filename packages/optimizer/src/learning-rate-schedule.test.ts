import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LearningRateSchedule, type LearningRateScheduleOptions } from './learning-rate-schedule.js';

const recipe = {
  maxLearningRate: 1.5e-4,
  minLearningRate: 1e-5,
  initialLearningRate: 1e-6,
  warmupSteps: 100,
  decaySteps: 1000,
  wsdDecaySteps: 200,
} as const;

const steps = [0, 50, 100, 101, 325, 550, 775, 800, 850, 900, 999, 1000, 1001, 5000];
const warmup = [1e-6, 7.55e-5, 1.5e-4];
const floor = [1e-5, 1e-5];

/**
 * Computed with 40 decimal digits by tooling/fixtures/learning-rate-schedule.py. The definitions use
 * p = 1.5e-4, f = 1e-5, x = (t - 100) / 900, y = (t - 800) / 200: linear is f + (p - f) * (1 - x); cosine is
 * f + (p - f) * (1 + cos(pi * x)) / 2; inverse square root is max(f, p * sqrt(100 / t)); WSD uses 1 - y,
 * (1 + cos(pi * y)) / 2, 2 * (1/2)^y - 1, and 1 - sqrt(y).
 */
const golden: ReadonlyArray<[string, Partial<LearningRateScheduleOptions>, readonly number[]]> = [
  ['constant', { decayStyle: 'constant' }, [...warmup, ...Array<number>(11).fill(1.5e-4)]],
  [
    'linear',
    { decayStyle: 'linear' },
    [
      ...warmup,
      1.4984444444444443e-4,
      1.15e-4,
      8e-5,
      4.5e-5,
      4.111111111111111e-5,
      3.3333333333333335e-5,
      2.5555555555555557e-5,
      1.0155555555555556e-5,
      1e-5,
      ...floor,
    ],
  ],
  [
    'cosine',
    { decayStyle: 'cosine' },
    [
      ...warmup,
      1.4999957353604534e-4,
      1.2949747468305833e-4,
      8e-5,
      3.0502525316941673e-5,
      2.6376888981671537e-5,
      1.9378221735089294e-5,
      1.4221516544986412e-5,
      1.0000426463954673e-5,
      1e-5,
      ...floor,
    ],
  ],
  [
    'inverse-square-root',
    { decayStyle: 'inverse-square-root' },
    [
      ...warmup,
      1.4925557853149836e-4,
      8.320502943378436e-5,
      6.396021490668312e-5,
      5.388159060803247e-5,
      5.303300858899106e-5,
      5.144957554275265e-5,
      5e-5,
      4.745789978762495e-5,
      4.743416490252569e-5,
      ...floor,
    ],
  ],
  [
    'WSD, linear',
    { decayStyle: 'WSD', wsdDecayStyle: 'linear' },
    [...warmup, ...Array<number>(5).fill(1.5e-4), 1.15e-4, 8e-5, 1.07e-5, 1e-5, ...floor],
  ],
  [
    'WSD, cosine',
    { decayStyle: 'WSD', wsdDecayStyle: 'cosine' },
    [
      ...warmup,
      ...Array<number>(5).fill(1.5e-4),
      1.2949747468305833e-4,
      8e-5,
      1.0008635726283757e-5,
      1e-5,
      ...floor,
    ],
  ],
  [
    'WSD, exponential (the default)',
    { decayStyle: 'WSD' },
    [
      ...warmup,
      ...Array<number>(5).fill(1.5e-4),
      1.0545099627104007e-4,
      6.79898987322333e-5,
      1.048604479133039e-5,
      1e-5,
      ...floor,
    ],
  ],
  [
    'WSD, minus_sqrt',
    { decayStyle: 'WSD', wsdDecayStyle: 'minus_sqrt' },
    [
      ...warmup,
      ...Array<number>(5).fill(1.5e-4),
      8e-5,
      5.100505063388335e-5,
      1.0350438597179977e-5,
      1e-5,
      ...floor,
    ],
  ],
];

describe('LearningRateSchedule', () => {
  it.each(golden)('%s follows its definition', (_, options, rates) => {
    const schedule = new LearningRateSchedule({ ...recipe, decayStyle: 'constant', ...options });
    for (const [index, step] of steps.entries()) {
      // The limit allows a few roundings in double precision, 1.1e-16 each, and cancellation near the floor.
      expect(Math.abs(schedule.at(step) / rates[index]! - 1), `step ${step}`).toBeLessThan(1e-14);
    }
  });

  it('starts at the peak without warm-up', () => {
    const schedule = new LearningRateSchedule({ maxLearningRate: 1, decayStyle: 'cosine', decaySteps: 10 });
    expect(schedule.at(0)).toBe(1);
    expect(schedule.at(10)).toBe(0);
  });

  it('takes inverse-square-root from step 1 without warm-up', () => {
    const schedule = new LearningRateSchedule({
      maxLearningRate: 1,
      decayStyle: 'inverse-square-root',
      decaySteps: 100,
    });
    expect([0, 1, 4, 25].map((step) => schedule.at(step))).toEqual([1, 1, 0.5, 0.2]);
  });

  it('never lets inverse-square-root fall below the floor', () => {
    const schedule = new LearningRateSchedule({
      maxLearningRate: 1,
      minLearningRate: 0.25,
      decayStyle: 'inverse-square-root',
      decaySteps: 100,
    });
    expect([9, 16, 25, 100].map((step) => schedule.at(step))).toEqual([1 / 3, 0.25, 0.25, 0.25]);
  });

  it('accepts a warm-up that is not a whole number of steps', () => {
    const schedule = new LearningRateSchedule({
      maxLearningRate: 1,
      decayStyle: 'constant',
      warmupSteps: 2.5,
      decaySteps: 10,
    });
    expect([0, 1, 2, 3].map((step) => schedule.at(step))).toEqual([0, 0.4, 0.8, 1]);
  });
});

const schedules = fc
  .record({
    peak: fc.double({ min: 1e-6, max: 1, noNaN: true }),
    floorShare: fc.double({ min: 0, max: 1, noNaN: true }),
    startShare: fc.double({ min: 0, max: 1, noNaN: true }),
    decaySteps: fc.integer({ min: 2, max: 1_000_000 }),
    warmupShare: fc.double({ min: 0, max: 0.9, noNaN: true }),
    wsdShare: fc.double({ min: 0, max: 1, noNaN: true }),
    decayStyle: fc.constantFrom('constant', 'linear', 'cosine', 'inverse-square-root', 'WSD'),
    wsdDecayStyle: fc.constantFrom('exponential', 'linear', 'cosine', 'minus_sqrt'),
  })
  .map(({ peak, floorShare, startShare, warmupShare, wsdShare, ...rest }): LearningRateScheduleOptions => {
    const warmupSteps = Math.floor(warmupShare * rest.decaySteps);
    const longest = rest.decaySteps - warmupSteps;
    return {
      ...rest,
      maxLearningRate: peak,
      minLearningRate: floorShare * peak,
      initialLearningRate: startShare * peak,
      warmupSteps,
      wsdDecaySteps: Math.max(1, Math.floor(wsdShare * longest)),
    };
  });

describe('every schedule', () => {
  it('stays between its bounds and never rises after warm-up', () => {
    fc.assert(
      fc.property(schedules, fc.double({ min: 0, max: 1.2, noNaN: true }), (options, where) => {
        const schedule = new LearningRateSchedule(options);
        const step = Math.floor(where * options.decaySteps);
        const rate = schedule.at(step);
        const floor = options.minLearningRate!;
        const lowest = step > options.warmupSteps! ? floor : Math.min(floor, options.initialLearningRate!);
        // The two roundings in f + share * (p - f) may each leave the interval by one unit in the last place.
        expect(rate).toBeGreaterThanOrEqual(lowest * (1 - 1e-15));
        expect(rate).toBeLessThanOrEqual(options.maxLearningRate * (1 + 1e-15));
        const next = schedule.at(step + 1);
        if (step < options.warmupSteps!) expect(next).toBeGreaterThanOrEqual(rate * (1 - 1e-15));
        else expect(next).toBeLessThanOrEqual(rate * (1 + 1e-15));
      }),
    );
  });

  it('is continuous where warm-up ends', () => {
    fc.assert(
      fc.property(schedules, (options) => {
        fc.pre(options.warmupSteps! >= 1 && options.decaySteps - options.warmupSteps! >= 100);
        fc.pre(options.decayStyle !== 'WSD' || options.wsdDecaySteps! < options.decaySteps / 100);
        fc.pre(options.decayStyle !== 'inverse-square-root' || options.warmupSteps! >= 20);
        const schedule = new LearningRateSchedule(options);
        // (p * w) / w may differ from p by one unit in the last place.
        const peakShare = schedule.at(options.warmupSteps!) / options.maxLearningRate;
        expect(Math.abs(peakShare - 1)).toBeLessThan(1e-15);
        // the limit is the largest decrease in any step, if the decay has at least 100 steps: 1/100 of the
        // range for linear decay, which is the steepest style, and 1 - sqrt(20 / 21) = 2.4 % for inverse
        // square root after 20 steps
        expect(schedule.at(options.warmupSteps! + 1)).toBeGreaterThan(0.97 * options.maxLearningRate);
      }),
    );
  });

  it('does not care whether steps are iterations or samples of a constant batch', () => {
    fc.assert(
      fc.property(schedules, fc.integer({ min: 1, max: 4096 }), fc.nat(1_000_000), (options, batch, step) => {
        fc.pre(options.decayStyle !== 'inverse-square-root' || options.warmupSteps! >= 1);
        const inSamples = new LearningRateSchedule({
          ...options,
          warmupSteps: options.warmupSteps! * batch,
          decaySteps: options.decaySteps * batch,
          wsdDecaySteps: options.wsdDecaySteps! * batch,
        });
        const rate = new LearningRateSchedule(options).at(step);
        // The ratios are equal; only the product in warm-up and the square roots are rounded differently.
        expect(Math.abs(inSamples.at(step * batch) - rate)).toBeLessThanOrEqual(rate * 1e-15);
      }),
    );
  });
});

describe('a schedule that cannot be', () => {
  it.each<[string, Partial<LearningRateScheduleOptions>, RegExp]>([
    ['a floor above the peak', { minLearningRate: 1 }, /minLearningRate 1 is above maxLearningRate 0.00015/],
    ['a start above the peak', { initialLearningRate: 1 }, /initialLearningRate 1 is above/],
    ['a peak that is not a number', { maxLearningRate: Number.NaN }, /maxLearningRate is NaN/],
    ['a negative floor', { minLearningRate: -1 }, /minLearningRate is -1/],
    ['no steps', { decaySteps: 0, warmupSteps: 0 }, /decays over 0 steps/],
    ['warm-up as long as the schedule', { warmupSteps: 1000 }, /warm-up takes 1000 of the 1000 steps/],
    ['WSD without its last phase', { decayStyle: 'WSD', wsdDecaySteps: 0 }, /takes 0 steps/],
    ['WSD that begins in warm-up', { decayStyle: 'WSD', wsdDecaySteps: 901 }, /takes 901 steps/],
  ])('is refused: %s', (_, options, message) => {
    expect(() => new LearningRateSchedule({ ...recipe, decayStyle: 'cosine', ...options })).toThrow(
      expect.objectContaining({ code: 'MTL_LEARNING_RATE', message: expect.stringMatching(message) }),
    );
  });

  it.each([
    ['decayStyle', 'cosinus', 'constant, linear, cosine, inverse-square-root, WSD', 'pass decayStyle cosine'],
    [
      'wsdDecayStyle',
      'minus-sqrt',
      'linear, cosine, exponential, minus_sqrt',
      'pass wsdDecayStyle minus_sqrt',
    ],
  ])('lists the styles where %s is unknown', (name, style, expected, remedy) => {
    const options = { ...recipe, decayStyle: 'cosine', [name]: style } as LearningRateScheduleOptions;
    expect(() => new LearningRateSchedule(options)).toThrow(
      expect.objectContaining({ message: `unknown ${name} ${style}`, expected, remedy }),
    );
  });
});
