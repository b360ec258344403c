import { add, matmul, numLiveTensors, Tensor, tidy } from '@mtl/kernels';
import { lastMatmulKernel } from '@mtl/kernels/matmul-choices';
import { afterEach, expect, it } from 'vitest';
import { OperationProfile, type StepProfile } from './operation-profile.js';

afterEach(() => expect(numLiveTensors()).toBe(0));

const [rows, columns, depth] = [4, 6, 8];
const product = { flops: 2 * rows * columns * depth, bytes: 4 * (rows * columns + depth * (rows + columns)) };

function recordProfile(
  body: (profile: OperationProfile, compute: Record<'matmul' | 'add', () => void>) => void,
) {
  let waited = 0;
  const told: StepProfile[] = [];
  const profile = new OperationProfile({
    first: 2,
    last: 3,
    waitedSeconds: () => (waited += 0.25),
    onProfile: (one) => told.push(one),
  });
  tidy(() => {
    const tensor = (...shape: number[]): Tensor => Tensor.zeros({ shape, dtype: 'float32' });
    const [output, left, right] = [tensor(rows, columns), tensor(rows, depth), tensor(columns, depth)];
    body(profile, {
      matmul: () => matmul({ output, left, right, transposeRight: true }),
      add: () => add({ output, left: output, right: output }),
    });
  });
  return told;
}

it('counts calls, FLOPs and bytes of the operations of the steps that were asked for', () => {
  const told = recordProfile((profile, compute) => {
    for (const step of [1, 2, 3, 4]) {
      profile.beginStep(step);
      profile.span({ kind: 'F' }, () => {
        compute.matmul();
        compute.add();
      });
      compute.matmul(); // outside of spans: no operation of a pass or the update
      profile.endStep(step);
    }
  });
  expect(told).toHaveLength(1);
  const [{ numSteps, waitedSeconds, seconds, operations }] = told as [StepProfile];
  expect({ numSteps, waitedSeconds }).toEqual({ numSteps: 2, waitedSeconds: 0.5 });
  const byName = Object.fromEntries(operations.map((operation) => [operation.name, operation]));
  expect(byName.matmul).toMatchObject({
    calls: 2,
    dtype: 'fp32',
    sizes: `4 x 6 x 8, right transposed, ${lastMatmulKernel()}`,
    flops: 2 * product.flops,
    bytes: 2 * product.bytes,
  });
  expect(byName.add).toMatchObject({
    calls: 2,
    sizes: undefined,
    flops: 0,
    bytes: 2 * 3 * 4 * rows * columns,
  });
  const sum = operations.reduce((total, operation) => total + operation.seconds, 0);
  expect(sum).toBeGreaterThan(0);
  expect(seconds).toBeGreaterThan(sum);
});

it('gives an operation its own FLOPs where spans lie in each other', () => {
  const [told] = recordProfile((profile, compute) => {
    for (const step of [2, 3]) {
      profile.beginStep(step);
      profile.span({ kind: 'step' }, () => {
        profile.span({ kind: 'F' }, compute.matmul);
        compute.add();
      });
      profile.endStep(step);
    }
  });
  const flops = told!.operations.map(({ name, flops: counted }) => [name, counted]);
  expect(Object.fromEntries(flops)).toEqual({ matmul: 2 * product.flops, add: 0 });
});
