import { describe, expect, it } from 'vitest';
import { type Profile, parseProfile } from '../profiles/profile.js';
import { collectiveSeconds } from './collective-seconds.js';
import { ratesFor } from './measured-times.js';
import { operationsSeconds, passSeconds } from './operations-seconds.js';

const constant = (value: number) => ({ value, source: 'test' });
const link = { bytesPerSecond: constant(1e10), efficiency: constant(1), latencySeconds: constant(1e-5) };
/** Makes rates in which each of two processes is half as fast as a single process. */
const rates = (numProcesses: number) => ({
  numProcesses,
  numThreads: 2 / numProcesses,
  matmuls: [
    {
      name: 'matmul',
      dtype: 'fp32',
      points: [
        { rows: 64, columns: 64, depth: 64, seconds: (numProcesses * 2 * 64 ** 3) / 1e10 },
        {
          rows: 1024,
          columns: 1024,
          depth: 1024,
          seconds: (numProcesses * 2 * 1024 ** 3) / 1e11,
          spread: 0.02,
        },
      ],
    },
  ],
  attention: [
    { name: 'attention_forward', dtype: 'fp32', points: [{ flops: 1e9, seconds: 0.1 * numProcesses }] },
  ],
  kernels: [
    {
      name: 'kernel',
      dtype: 'fp32',
      points: [
        { bytes: 1e4, seconds: 1e-6 * numProcesses },
        { bytes: 1e8, seconds: 1e-2 * numProcesses },
      ],
    },
  ],
});
const measured = {
  name: 'here',
  hardware: {
    version: 1,
    name: 'here',
    device: 'a CPU',
    state: 'measured',
    memoryBytes: constant(8e9),
    gpusPerNode: constant(2),
    rates: [rates(1), rates(2)],
    linkInside: link,
    overlapCost: constant(1),
  },
  software: {
    version: 1,
    name: 'mtl',
    description: 'test',
    source: 'test',
    operations: 'recorded',
    hostSecondsPerOperation: constant(1e-9),
    linkFactor: constant(1),
  },
};
const profile = parseProfile(measured);
const matmul = (size: number) =>
  ({
    kind: 'matmul',
    name: 'matmul',
    dtype: 'fp32',
    time: 'matmuls',
    batch: 1,
    rows: size,
    columns: size,
    depth: size,
    resultBytes: 4,
  }) as const;
const kernel = (bytes: number) =>
  ({ kind: 'kernel', name: 'add', dtype: 'fp32', time: 'kernels', bytes }) as const;
const seconds = (operation: Parameters<typeof operationsSeconds>[0][number], of: Profile = profile): number =>
  passSeconds(operationsSeconds([operation], of));

describe('times of a measured profile', () => {
  it('are the rates of the measured shapes, and between two shapes lie between their rates', () => {
    expect(seconds(matmul(64)) / ((2 * 64 ** 3) / 1e10)).toBeCloseTo(1, 3);
    expect(seconds(matmul(1024)) / ((2 * 1024 ** 3) / 1e11)).toBeCloseTo(1, 3);
    // in logarithms, 256 is midway between 64 and 1,024
    expect(seconds(matmul(256)) / ((2 * 256 ** 3) / Math.sqrt(1e10 * 1e11))).toBeCloseTo(1, 3);
  });

  it('of kernels follow bytes, and do not fall below the smallest', () => {
    expect(seconds(kernel(1))).toBeCloseTo(1e-6, 12);
    expect(seconds(kernel(1e6))).toBeCloseTo(1e-4, 10);
    expect(seconds(kernel(1e9))).toBeCloseTo(0.1, 10);
    const attention = {
      kind: 'fused-attention',
      name: 'attention_forward',
      dtype: 'fp32',
      bytes: 0,
    } as const;
    expect(seconds({ ...attention, flops: 2e9 })).toBeCloseTo(0.2, 10);
  });

  it('depend on the number of processes that share the machine', () => {
    if (profile.hardware.state !== 'measured') throw new Error('not measured');
    const two = { ...profile, hardware: ratesFor(profile.hardware, { numProcesses: 2 }) };
    expect(seconds(matmul(1024), two) / seconds(matmul(1024))).toBeCloseTo(2, 6);
    expect(ratesFor(profile.hardware, { numProcesses: 3 }).rates).toEqual([rates(2)]);
  });

  it('depend on the number of threads, and the memory on the number of processes', () => {
    if (profile.hardware.state !== 'measured') throw new Error('not measured');
    const [one, two] = profile.hardware.rates;
    const faster = { ...one!, numThreads: 1, memoryBytes: 3e9 };
    const hardware = { ...profile.hardware, rates: [one!, two!, faster] };
    const chosen = ratesFor(hardware, { numProcesses: 1, numThreads: 1 });
    expect(chosen.rates).toEqual([faster]);
    expect(chosen.memoryBytes.value).toBe(3e9);
    expect(ratesFor(hardware, { numProcesses: 1, numThreads: 2 }).memoryBytes.value).toBe(8e9);
    expect(ratesFor(hardware, { numProcesses: 1 }).rates).toEqual([rates(1)]);
  });

  it('distinguish variants, and take the other one where only it was measured', () => {
    const withDropout = {
      name: 'add',
      dtype: 'fp32',
      variant: 'dropout',
      points: [{ bytes: 8, seconds: 5 }],
    };
    const [first] = measured.hardware.rates;
    const own = parseProfile({
      ...measured,
      hardware: {
        ...measured.hardware,
        rates: [{ ...first, kernels: [...first!.kernels, withDropout] }],
      },
    });
    expect(seconds({ ...kernel(8), variant: 'dropout' }, own)).toBe(5);
    expect(seconds(kernel(8), own)).toBe(5);
    expect(seconds({ ...kernel(8), name: 'other' }, own)).toBeCloseTo(1e-6, 12);
  });

  it('of collectives are those that were measured, by the part that a rank sends', () => {
    const points = [
      { bytes: 100, seconds: 1e-5 },
      { bytes: 1e6, seconds: 1e-3 },
    ];
    const [, two] = measured.hardware.rates;
    const own = parseProfile({
      ...measured,
      hardware: {
        ...measured.hardware,
        rates: [{ ...two, numProcesses: 4, collectives: [{ name: 'all-reduce', points }] }],
      },
    });
    const ofSize = (size: number) =>
      collectiveSeconds(
        { collective: 'all-reduce', bytes: 1e6, group: { axis: 'dp', size, perNode: size } },
        own,
      );
    expect(ofSize(4)).toBeCloseTo(1e-3, 12);
    expect(ofSize(2)).toBeCloseTo((1e-3 * 0.5) / 0.75, 12);
  });

  it('end where nothing was measured between machines', () => {
    const group = { axis: 'dp', size: 4, perNode: 2 } as const;
    expect(() => collectiveSeconds({ collective: 'all-reduce', bytes: 1, group }, profile)).toThrow(
      expect.objectContaining({
        code: 'MTL_PROFILE',
        message: 'here: no link between machines was measured',
      }),
    );
  });

  it('need recorded operations', () => {
    const software = { ...measured.software, operations: 'listed' };
    expect(() => parseProfile({ ...measured, software })).toThrow('software.');
  });
});
