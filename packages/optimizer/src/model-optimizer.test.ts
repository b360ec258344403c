import { Parameter } from '@mtl/autograd';
import { type ProcessGroup, SingleProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { expect, it, vi } from 'vitest';
import { AdamwOptimizer } from './adamw.js';
import { ModelOptimizer } from './model-optimizer.js';
import type { Optimizer, OptimizerRange } from './optimizer.js';
import type { ParameterStore } from './store/parameter-store.js';
import { ReplicatedStore } from './store/replicated-store.js';
import { Zero1Store } from './store/zero1-store.js';

/** A rule with two states that records to which ranges it is bound. */
class RecordingRule implements Optimizer {
  readonly states = [
    { name: 'first', dtype: 'float32' },
    { name: 'second', dtype: 'float32' },
  ] as const;
  ranges: readonly OptimizerRange[] = [];

  bind(ranges: readonly OptimizerRange[]) {
    this.ranges = ranges;
    return { beginStep: () => {}, update: () => {}, dispose: () => {} };
  }
}

/** Returns a group that claims to be rank 1 of two, but communicates nothing. */
function groupOfTwo(): ProcessGroup {
  const group: ProcessGroup = new SingleProcessGroup('dp');
  Object.defineProperties(group, { size: { value: 2 }, rank: { value: 1 } });
  return group;
}

it.each(['float32', 'bfloat16'] as const)('gives every range states of its own: %s', (dtype) => {
  const parameters = [96, 160, 64].map(
    (size, index) =>
      new Parameter({ name: `p${index}`, globalShape: [size], initialization: { kind: 'zeros' } }),
  );
  const group = groupOfTwo();
  const store = new Zero1Store(parameters, { device: 'cpu', dtype, group, bucketBytes: 4 });
  const rule = new RecordingRule();
  const optimizer = new ModelOptimizer([store], {
    optimizer: rule,
    weightDecay: 0,
    clipGrad: 0,
    groups: { dp: group, world: groupOfTwo() },
  });
  const { owned } = store;
  expect(owned.length).toBe(3);
  for (const state of [0, 1]) {
    rule.ranges.forEach(({ states }, index) => {
      const tensor = states[state]!;
      tensor.write(Float32Array.from({ length: tensor.size }, () => index + 1));
    });
    // checkpoints read a parameter's states in slices
    const { buffer, listParts } = optimizer.state[state]!;
    const values = buffer.toArray();
    for (const range of store.ranges) {
      for (const { start, end, values: ofPart } of listParts(range)!) {
        const own = owned.findIndex((held) => held.start <= start && end <= held.end);
        using part = ofPart.view()!;
        expect(part.size).toBe(end - start);
        expect(new Set(part.toArray())).toEqual(new Set([own + 1]));
      }
    }
    expect(values).not.toContain(0);
  }
  optimizer.dispose();
});

it('refuses stores of other groups than its own, and none', () => {
  const parameter = new Parameter({ name: 'w', globalShape: [4], initialization: { kind: 'ones' } });
  const group = groupOfTwo();
  const adamw = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipGrad: 0 };
  const store = new ReplicatedStore([parameter], { device: 'cpu', dtype: 'float32' });
  const build = (stores: readonly ParameterStore[]) =>
    new AdamwOptimizer(stores, { ...adamw, groups: { dp: group, world: group } });
  expect(() => build([store])).toThrow(
    'the store of w sums gradients as rank 0 of 1, the groups of the optimizer say rank 1 of 2',
  );
  expect(() => build([])).toThrow('an optimizer without a store of parameters');
  store.dispose();
});

it('refuses instances over which nothing sums gradients', () => {
  const parameter = new Parameter({ name: 'w', globalShape: [4], initialization: { kind: 'ones' } });
  const [dense, dp] = [groupOfTwo(), groupOfTwo()];
  Object.defineProperty(dp, 'size', { value: 4 });
  const store = new Zero1Store([parameter], { device: 'cpu', dtype: 'float32', group: dense });
  const groups = { dp, dense, world: dp };
  const build = (more: object) =>
    new ModelOptimizer([store], { optimizer: new RecordingRule(), groups: { ...groups, ...more } });
  expect(() => build({})).toThrow('gradients of 4 ranks are summed over 2 of them');
  build({ dpInstances: groupOfTwo() }).dispose();
});

it('gives master values of what a rank owns only', () => {
  const parameter = new Parameter({ name: 'w', globalShape: [256], initialization: { kind: 'ones' } });
  const store = new Zero1Store([parameter], { device: 'cpu', dtype: 'float32', group: groupOfTwo() });
  using owned = store.master({ start: 128, end: 256 });
  expect(owned.size).toBe(128);
  expect(() => store.master({ start: 100, end: 256 })).toThrow(
    'elements 100 to 256 are not in one range that this rank owns',
  );
  store.dispose();
});

it('marks gradients clear where first gradients may be written, whenever they are zeros', () => {
  for (const writesFirstGradients of [true, undefined]) {
    const parameter = new Parameter({ name: 'w', globalShape: [4, 3], initialization: { kind: 'ones' } });
    const store = new ReplicatedStore([parameter], { device: 'cpu', dtype: 'float32' });
    const optimizer = new AdamwOptimizer([store], {
      beta1: 0.9,
      beta2: 0.95,
      epsilon: 1e-8,
      weightDecay: 0,
      clipGrad: 0,
      ...(writesFirstGradients === undefined ? {} : { writesFirstGradients }),
    });
    const expectZeros = (): void => {
      const { gradient, accumulate } = parameter.takeMainGradient();
      expect(accumulate).toBe(writesFirstGradients !== true);
      expect(new Set(gradient.toArray())).toEqual(new Set([0]));
      gradient.write(new Float32Array(12).fill(2));
      expect(parameter.takeMainGradient().accumulate).toBe(true);
    };
    expectZeros();
    optimizer.step({ learningRate: 0.1 });
    expectZeros();
    optimizer.discardGradients();
    expectZeros();
    parameter.mainGradient.write(new Float32Array(12).fill(Number.NaN));
    expect(optimizer.step({ learningRate: 0.1 }).skipped).toBe(true);
    expectZeros();
    optimizer.dispose();
  }
});

it('tells the norm of other ranks where it updates nothing itself', () => {
  const frozen = new Parameter({ name: 'w', globalShape: [4], initialization: { kind: 'ones' } });
  frozen.freeze();
  const world: ProcessGroup = new SingleProcessGroup('world');
  // simulates that the second rank has the gradients 3 and 4, times the loss scale
  const allReduce = (tensor: Tensor) => {
    tensor.write(Float64Array.of(tensor.item() + 64 * (9 + 16)));
    return { wait: () => {} };
  };
  Object.defineProperties(world, { size: { value: 2 }, allReduce: { value: allReduce } });
  const store = new ReplicatedStore([frozen], { device: 'cpu', dtype: 'float32' });
  const optimizer = new AdamwOptimizer([store], { groups: { world } });
  using gradientNorm = Tensor.from([Number.NaN], { shape: [1], dtype: 'float64' });
  optimizer.launchStep({ learningRate: 0.01, lossScale: 8, gradientNorm });
  expect(gradientNorm.item()).toBe(5);
  optimizer.dispose();
});

it.each([
  ['replicated', 'float32'],
  ['replicated', 'bfloat16'],
  ['zero1', 'float32'],
  ['zero1', 'bfloat16'],
] as const)('scales parts of the master values that a rank has: %s, %s', (kind, dtype) => {
  const parameters = [96, 64].map(
    (size, index) =>
      new Parameter({ name: `p${index}`, globalShape: [size], initialization: { kind: 'ones' } }),
  );
  const group = kind === 'zero1' ? groupOfTwo() : undefined;
  // simulates that the values from the second rank never arrive
  if (group) Object.defineProperty(group, 'allGather', { value: () => ({ wait: () => {} }) });
  const options = { device: 'cpu', dtype, group, bucketBytes: 2 ** 20 } as const;
  const store =
    kind === 'zero1' ? new Zero1Store(parameters, options) : new ReplicatedStore(parameters, options);
  const optimizer = new ModelOptimizer([store], {
    optimizer: new RecordingRule(),
    ...(group && { groups: { dp: group, world: groupOfTwo() } }),
  });
  store.initialize(1);
  const [first, second] = parameters as [Parameter, Parameter];
  const [wait, readMaster] = [vi.spyOn(store, 'waitForValues'), vi.spyOn(store, 'masterValues')];
  // the product with this factor cannot be represented in bfloat16, but it can in the float32 master value
  optimizer.scaleParts([
    { parameter: first, start: 40, end: 96, factor: 1.001 },
    { parameter: second, start: 0, end: 32, factor: 0.5 },
  ]);
  // the scaling must wait for the gather, which would otherwise overwrite scaled values
  expect(wait.mock.invocationCallOrder[0]).toBeLessThan(readMaster.mock.invocationCallOrder[0]!);
  const masters = store.owned.flatMap((range) => {
    using master = store.master(range);
    return master.toArray();
  });
  const numOwned = store.owned.reduce((sum, { start, end }) => sum + end - start, 0);
  const places = store.owned.flatMap(({ start, end }) =>
    Array.from({ length: end - start }, (_, at) => start + at),
  );
  const of = (place: number): number => {
    const range = store.ranges.find(({ start, end }) => start <= place && place < end);
    if (range === undefined) return 0;
    const at = place - range.start;
    if (range.parameter === first) return at >= 40 ? Math.fround(1.001) : 1;
    return at < 32 ? 0.5 : 1;
  };
  expect(masters).toEqual(places.map(of));
  expect(numOwned).toBe(kind === 'zero1' ? 128 : 192);
  places.forEach((place) => {
    const range = store.ranges.find(({ start, end }) => start <= place && place < end);
    if (range === undefined) return;
    const rounded = dtype === 'bfloat16' && of(place) > 1 ? 1 : of(place);
    expect(range.parameter.data.toArray()[place - range.start]).toBe(rounded);
  });
  optimizer.dispose();
});
