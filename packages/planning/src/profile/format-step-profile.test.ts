import { expect, it } from 'vitest';
import { formatStepProfile } from './format-step-profile.js';
import type { ProfiledOperation } from './operation-profile.js';
import { leastSeconds, measureRoofline, type Roofline } from './roofline.js';

const roofline: Roofline = { flopsPerSecond: { fp32: 100e9, bf16: 400e9 }, bytesPerSecond: 20e9 };

const matmul: ProfiledOperation = {
  name: 'matmul',
  dtype: 'bf16',
  sizes: '64 x 32 x 16',
  calls: 4,
  seconds: 0.02,
  flops: 4e9,
  bytes: 1e8,
};
const operations: ProfiledOperation[] = [
  matmul,
  { ...matmul, sizes: '8 x 8 x 8', calls: 2, seconds: 0.01, flops: 2e9 },
  { name: 'adamw', dtype: 'fp32', sizes: undefined, calls: 2, seconds: 0.008, flops: 0, bytes: 8e7 },
  { name: 'tiny', dtype: 'fp32', sizes: undefined, calls: 2, seconds: 1e-5, flops: 0, bytes: 0 },
];

it('bounds work by its FLOPs or its bytes, whichever take longer', () => {
  expect(leastSeconds({ dtype: 'bf16', flops: 4e9, bytes: 1e8 }, roofline)).toBe(0.01);
  expect(leastSeconds({ dtype: 'fp32', flops: 1e8, bytes: 1e8 }, roofline)).toBe(0.005);
  expect(leastSeconds({ dtype: 'fp32', flops: 0, bytes: 1e8 }, roofline)).toBe(0.005);
});

it('measures what a matmul of each dtype and the memory reach', () => {
  const { flopsPerSecond, bytesPerSecond } = measureRoofline(['fp32', 'bf16']);
  expect(Object.keys(flopsPerSecond)).toEqual(['fp32', 'bf16']);
  for (const rate of [...Object.values(flopsPerSecond), bytesPerSecond]) {
    expect(rate).toBeGreaterThan(1e8);
    expect(rate).toBeLessThan(1e15);
  }
});

it('adds up a step, by operation and by the sizes of matmuls', () => {
  const text = formatStepProfile({ numSteps: 2, seconds: 0.05, waitedSeconds: 0.002, operations }, roofline);
  expect(text.split('\n')).toEqual([
    'profile of 2 steps, means of one: 25.00 ms',
    'operation                            dtype  calls     ms  of step  GFLOP/s  GB/s  of roofline',
    'matmul                                bf16      3  15.00   60.0 %      200   6.7       50.0 %',
    'adamw                                 fp32      1   4.00   16.0 %           10.0       50.0 %',
    'other operations                                    0.01    0.0 %',
    'all operations                                     19.01   76.0 %                      50.0 %',
    'waiting for other ranks                             1.00    4.0 %',
    'the rest: TypeScript, threads, data                 5.00   20.0 %',
    '',
    'matmul, rows x columns x depth  dtype  calls     ms  of step  GFLOP/s  GB/s  of roofline',
    'matmul 64 x 32 x 16              bf16      2  10.00   40.0 %      200   5.0       50.0 %',
    'matmul 8 x 8 x 8                 bf16      1   5.00   20.0 %      200  10.0       50.0 %',
    '',
    'roofline, measured here on the threads of this rank:',
    '  a matmul of 1,024 x 1,024 x 1,024 100 in fp32 and 400 in bf16 GFLOP/s, a sum in memory 20.0 GB/s',
    '  bytes count every operand once; above 100 % an operation found them in the caches',
  ]);
});
