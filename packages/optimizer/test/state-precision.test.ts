import { readFileSync } from 'node:fs';
import { Parameter } from '@mtl/autograd';
import { memoryStatistics, numLiveTensors, Tensor, trimMemory } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Adamw, AdamwOptimizer, createStores, ModelOptimizer, Muon, type StateDtype } from '../src/index.js';

/** Results of AdamW with rounded moments in PyTorch, from tooling/fixtures/state-precision.py. */
interface Fixture {
  readonly settings: {
    readonly beta1: number;
    readonly beta2: number;
    readonly epsilon: number;
    readonly weightDecay: number;
    readonly learningRate: number;
  };
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly steps: number;
  readonly runs: readonly {
    readonly dtypes: readonly [keyof typeof dtypeOfPrecision, keyof typeof dtypeOfPrecision];
    readonly after: Readonly<Record<string, readonly number[]>>;
  }[];
}

const dtypeOfPrecision = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' } as const;
/** A unit in the last place of moments, relative to them. */
const lastPlaces = { fp32: 0, bf16: 2 ** -7, fp16: 2 ** -10 };
const fixture = JSON.parse(
  readFileSync(new URL('../fixtures/state-precision.json', import.meta.url), 'utf8'),
) as Fixture;

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

// the same function as in the script of the fixture
const fixtureValues = (step: number, parameter: number, size: number): Float32Array =>
  Float32Array.from(
    { length: size },
    (_, at) => Math.sin(step * 1.3 + parameter * 7 + at * at * 0.37) * 10 ** -(at % 7),
  );

const makeParameters = (): Parameter[] =>
  Object.entries(fixture.shapes).map(
    ([name, globalShape]) => new Parameter({ name, globalShape, initialization: { kind: 'zeros' } }),
  );

/** Returns the values of all parameters after the fixture's steps. */
function train(
  expAvgDtype: StateDtype,
  expAvgSqDtype: StateDtype,
): Readonly<Record<string, readonly number[]>> {
  const parameters = makeParameters();
  const stores = createStores(parameters, { device: 'cpu', dtype: 'float32' });
  const { learningRate, ...settings } = fixture.settings;
  using optimizer = new AdamwOptimizer(stores, { ...settings, expAvgDtype, expAvgSqDtype });
  for (const [which, { data, size }] of parameters.entries()) data.write(fixtureValues(0, which, size));
  for (let step = 1; step <= fixture.steps; step++) {
    for (const [which, { mainGradient, size }] of parameters.entries()) {
      mainGradient.write(fixtureValues(step, which, size));
    }
    optimizer.step({ learningRate });
  }
  return Object.fromEntries(parameters.map(({ name, data }) => [name, data.toArray()]));
}

describe('AdamW with moments in fewer bits', () => {
  it.each(fixture.runs)('updates as PyTorch with moments rounded alike: $dtypes', ({ dtypes, after }) => {
    const values = train(dtypeOfPrecision[dtypes[0]], dtypeOfPrecision[dtypes[1]]);
    for (const [name, expected] of Object.entries(after)) {
      const differences = values[name]!.map((value, at) => Math.abs(value - expected[at]!));
      // float32 over 30 steps of at most 0.01; where float32 is on the other side of a tie, a moment differs
      // by a unit in its last place, and the next 1 / (1 - beta1) updates by as much of 0.01
      const numFar = differences.filter((difference) => difference > 1e-6).length;
      const last = Math.max(...dtypes.map((dtype) => lastPlaces[dtype]));
      expect(numFar).toBeLessThanOrEqual(last === 0 ? 0 : differences.length / 50);
      expect(Math.max(...differences)).toBeLessThan(1e-6 + 10 * 0.01 * last);
    }
  });

  it('differs from AdamW in float32 by much more than it differs from PyTorch', () => {
    const exact = fixture.runs[0]!.after;
    for (const { dtypes, after } of fixture.runs.slice(1)) {
      const differences = after.matrix!.map((value, at) => Math.abs(value - exact.matrix![at]!));
      const numFar = differences.filter((difference) => difference > 1e-6).length;
      expect(numFar, dtypes.join()).toBeGreaterThan(differences.length / 4);
    }
  });
});

/** Returns an optimizer over a store of bfloat16 values, after some steps. */
function trained(storesRemainders: boolean, expAvgDtype: StateDtype = 'float32') {
  const parameters = makeParameters();
  const stores = createStores(parameters, { device: 'cpu', dtype: 'bfloat16', storesRemainders });
  const { learningRate, ...settings } = fixture.settings;
  const optimizer = new AdamwOptimizer(stores, { ...settings, expAvgDtype });
  const [store] = stores as [(typeof stores)[number]];
  const [all] = store.owned as [(typeof store.owned)[number]];
  const shape = [all.end - all.start];
  const masters = store.masterValues(all);
  using initial = Tensor.zeros({ shape, dtype: 'float32' });
  for (const [which, { start, end }] of store.ranges.entries()) {
    using part = initial.view({ offset: start, shape: [end - start] });
    part.write(fixtureValues(0, which, end - start));
  }
  masters.write(0, initial);
  store.refresh();
  for (let step = 1; step <= 5; step++) {
    for (const [which, { mainGradient, size }] of parameters.entries()) {
      mainGradient.write(fixtureValues(step, which, size));
    }
    optimizer.step({ learningRate });
  }
  const read = (): number[] => {
    using values = Tensor.empty({ shape, dtype: 'float32' });
    masters.read(0, values);
    return values.toArray();
  };
  return { parameters, store, all, optimizer, read };
}

describe('master values as remainders of the model', () => {
  it('are the values that a store without remainders has', () => {
    const [whole, split] = [trained(false, 'bfloat16'), trained(true, 'bfloat16')];
    using _ = whole.optimizer;
    using __ = split.optimizer;
    expect(split.read()).toEqual(whole.read());
    expect(split.store.storesRemainders).toBe(true);
    // the model is at most half a unit in the last place away
    split.parameters[0]!.data.toArray().forEach((value, at) => {
      expect(Math.abs(value - split.read()[at]!)).toBeLessThanOrEqual(2 ** -8 * Math.abs(value));
    });
  });

  it('are scaled in place, as whole values are', () => {
    const results = [trained(false, 'bfloat16'), trained(true, 'bfloat16')].map(
      ({ parameters, optimizer, read }) => {
        using __ = optimizer;
        optimizer.scaleParts([{ parameter: parameters[0]!, start: 3, end: 70, factor: 1.001 }]);
        return read();
      },
    );
    expect(results[1]).toEqual(results[0]);
  });

  it('have no whole values, and no effect on a model in another dtype', () => {
    const { optimizer, store, all } = trained(true);
    expect(() => store.master(all)).toThrow(
      expect.objectContaining({ code: 'MTL_OPTIMIZER_STATE' }) as Error,
    );
    optimizer.dispose();
    for (const dtype of ['float32', 'float16'] as const) {
      const [other] = createStores(makeParameters(), { device: 'cpu', dtype, storesRemainders: true });
      expect(other!.storesRemainders).toBe(false);
      other!.dispose();
    }
  });

  it('are refused by a rule that updates only whole values', () => {
    const options = { device: 'cpu', dtype: 'bfloat16', storesRemainders: true } as const;
    const stores = createStores(makeParameters(), options);
    const muon = new Muon({
      momentum: 0.95,
      nesterov: false,
      scaleMode: 'spectral',
      extraScaleFactor: 0.2,
      coefficientType: 'quintic',
      numSteps: 5,
      splitQkv: true,
      dtype: 'float32',
    });
    const before = numLiveTensors();
    expect(() => new ModelOptimizer(stores, { optimizer: muon })).toThrow(
      expect.objectContaining({ code: 'MTL_OPTIMIZER_STATE' }) as Error,
    );
    expect(numLiveTensors()).toBe(before);
    for (const store of stores) store.dispose();
  });
});

describe('states in float16', () => {
  it('are written in any order and read back with the same values', () => {
    const { optimizer, store } = trained(false, 'float16');
    using _ = optimizer;
    const state = optimizer.state.find(({ name }) => name === 'exp_avg')!;
    const parts = store.ranges.flatMap((range) => state.listParts(range)!);
    const readAll = (): number[][] =>
      parts.map(({ start, end, values }) => {
        expect(values.view()).toBeUndefined();
        using floats = Tensor.empty({ shape: [end - start], dtype: 'float32' });
        values.read(0, floats);
        return floats.toArray();
      });
    const saved = readAll();
    for (const each of saved) expect(Math.max(...each)).toBeGreaterThan(0);
    optimizer.clearStates();
    expect(
      readAll()
        .flat()
        .every((value) => value === 0),
    ).toBe(true);
    parts.forEach(({ values }, which) => {
      // from the end, so that the scale rises from part to part
      for (let at = saved[which]!.length - 1; at >= 0; at--) {
        using one = Tensor.from([saved[which]![at]!], { shape: [1], dtype: 'float32' });
        values.write(at, one);
      }
    });
    expect(readAll()).toEqual(saved);
  });

  it('belong to the rule that was asked', () => {
    expect(new Adamw().states.map(({ dtype }) => dtype)).toEqual(['float32', 'float32']);
    expect(new Adamw({ expAvgSqDtype: 'float16' }).states.map(({ dtype }) => dtype)).toEqual([
      'float32',
      'float16',
    ]);
  });
});

it('leaves no memory of initial values behind', () => {
  trimMemory('cpu');
  const before = memoryStatistics('cpu');
  const weight = new Parameter({
    name: 'weight',
    globalShape: [1024, 4096],
    initialization: { kind: 'normal', standardDeviation: 1 },
  });
  const [store] = createStores([weight], { device: 'cpu', dtype: 'bfloat16', seed: 1 });
  const after = memoryStatistics('cpu');
  expect(after.bytesReserved - before.bytesReserved).toBe(after.bytesInUse - before.bytesInUse);
  store!.dispose();
});

describe('main gradients in bfloat16', () => {
  const create = (gradientDtype: 'float32' | 'bfloat16') => {
    const parameters = makeParameters();
    const stores = createStores(parameters, { device: 'cpu', dtype: 'float32', gradientDtype });
    const { learningRate, ...settings } = fixture.settings;
    const optimizer = new AdamwOptimizer(stores, { ...settings, clipGrad: 1 });
    return { parameters, store: stores[0]!, optimizer, learningRate };
  };

  it('take the sums of an operation, rounded once, and give their norm and their update', () => {
    const [exact, kept] = [create('float32'), create('bfloat16')];
    using _ = exact.optimizer;
    using __ = kept.optimizer;
    const round = (value: number): number => {
      using one = Tensor.from([value], { shape: [1], dtype: 'bfloat16' });
      return one.item();
    };
    const expected: number[][] = [];
    for (const [which, { mainGradient, size }] of exact.parameters.entries()) {
      const [first, second] = [fixtureValues(1, which, size), fixtureValues(2, which, size)];
      const sums = Array.from(first, (value, at) => round(round(value) + second[at]!));
      expected.push(sums);
      mainGradient.write(Float32Array.from(sums));
    }
    for (const micro of [1, 2]) {
      for (const [which, parameter] of kept.parameters.entries()) {
        parameter.mainGradient.write(fixtureValues(micro, which, parameter.size));
        parameter.keepGradient();
      }
    }
    for (const [which, range] of kept.store.ranges.entries()) {
      using gradient = kept.store.gradient(range);
      expect(gradient.dtype).toBe('bfloat16');
      expect(gradient.toArray()).toEqual(expected[which]);
    }
    const [one, other] = [exact, kept].map(({ optimizer, learningRate }) => optimizer.step({ learningRate }));
    // squares of the same numbers, in double, of parts of another size
    expect(Math.abs(other!.gradientNorm / one!.gradientNorm - 1)).toBeLessThan(1e-7);
    exact.parameters.forEach(({ data }, which) => {
      const values = kept.parameters[which]!.data.toArray();
      const differences = data.toArray().map((value, at) => Math.abs(value - values[at]!));
      expect(Math.max(...differences)).toBeLessThan(1e-6);
    });
    // the step has cleared them
    for (const range of kept.store.ranges) {
      using gradient = kept.store.gradient(range);
      expect(gradient.toArray().every((value) => value === 0)).toBe(true);
    }
  });
});
