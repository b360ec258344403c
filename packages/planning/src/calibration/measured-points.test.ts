import { type MatmulOperation, operationsSeconds, passSeconds } from '@mtl/cost-model';
import { expect, it } from 'vitest';
import { calibratedProfile } from './calibrated-profile.js';
import { measuredEntries } from './measured-points.js';

const grouped: MatmulOperation = {
  kind: 'matmul',
  name: 'grouped_matmul',
  dtype: 'fp32',
  time: 'matmuls',
  batch: 8,
  rows: 64,
  columns: 32,
  depth: 48,
  resultBytes: 4,
};

it('times matmuls of experts together: planned, they take the measured time, and twice the number takes twice the time', () => {
  const plain = { ...grouped, name: 'matmul', batch: 1 };
  const entries = measuredEntries([
    { operation: grouped, seconds: [8e-4] },
    { operation: plain, seconds: [5e-4] },
    { operation: { kind: 'kernel', name: 'add', dtype: 'fp32', time: 'kernels', bytes: 8 }, seconds: [1e-6] },
  ]);
  const rates = [{ numProcesses: 1, numThreads: 1, ...entries }];
  const profile = calibratedProfile({ rates, numProcesses: 1, measuredAt: new Date(0) });
  const planned = (operation: MatmulOperation): number =>
    passSeconds(operationsSeconds([operation], profile));
  expect(planned(grouped)).toBeCloseTo(8e-4, 9);
  expect(planned({ ...grouped, batch: 16 })).toBeCloseTo(16e-4, 9);
  expect(planned(plain)).toBeCloseTo(5e-4, 9);
});
