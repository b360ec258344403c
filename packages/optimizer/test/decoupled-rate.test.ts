import { readFileSync } from 'node:fs';
import { Parameter } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  Adamw,
  createStores,
  ModelOptimizer,
  type ModelOptimizerOptions,
  Muon,
  muonWith,
} from '../src/index.js';
import type { OptimizerStepOptions } from '../src/model-optimizer.js';

/** Results of torch.optim.AdamW with two groups of parameters, from tooling/fixtures/decoupled-rate.py. */
interface Fixture {
  readonly settings: {
    readonly beta1: number;
    readonly beta2: number;
    readonly epsilon: number;
    readonly weightDecay: number;
    readonly clipGrad: number;
  };
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly tables: readonly string[];
  readonly steps: number;
  readonly after: Readonly<Record<string, readonly number[]>>;
}

const fixture = JSON.parse(
  readFileSync(new URL('../fixtures/decoupled-rate.json', import.meta.url), 'utf8'),
) as Fixture;
const { settings } = fixture;
const adamw = new Adamw(settings);

// the same function as in the script of the fixture
const fixtureValue = (step: number, parameter: number, position: number): number =>
  Math.sin(step * 1.3 + parameter * 7 + position * position * 0.37);
const rateAt = (step: number): number => 0.01 / step;
const decoupledRateAt = (step: number): number => 0.03 * (1 - step / 40);

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

const isTable = ({ isVocabularyTable }: Parameter): boolean => isVocabularyTable;

/** Returns master values by parameter after the fixture's steps. */
function train(
  options: Pick<ModelOptimizerOptions, 'optimizer' | 'isDecoupled'>,
  ratesAt: (step: number) => OptimizerStepOptions,
): Readonly<Record<string, readonly number[]>> {
  const parameters = Object.entries(fixture.shapes).map(
    ([name, globalShape]) =>
      new Parameter({
        name,
        globalShape,
        isVocabularyTable: fixture.tables.includes(name),
        initialization: { kind: 'zeros' },
        ...(name === 'matrix' ? { matrices: [globalShape.map((size) => ({ start: 0, end: size }))] } : {}),
      }),
  );
  const stores = createStores(parameters, { device: 'cpu', dtype: 'float32' });
  const { weightDecay, clipGrad } = settings;
  const optimizer = new ModelOptimizer(stores, { ...options, weightDecay, clipGrad });
  const makeValues = (step: number, which: number): Float32Array =>
    Float32Array.from({ length: parameters[which]!.size }, (_, at) => fixtureValue(step, which, at));
  for (const [which, { data }] of parameters.entries()) data.write(makeValues(0, which));
  for (let step = 1; step <= fixture.steps; step++) {
    for (const [which, { mainGradient }] of parameters.entries()) mainGradient.write(makeValues(step, which));
    optimizer.step(ratesAt(step));
  }
  const result = parameters.map(({ name, data }) => [name, data.toArray()] as const);
  optimizer.dispose();
  return Object.fromEntries(result);
}

const two = (step: number): OptimizerStepOptions => ({
  learningRate: rateAt(step),
  decoupledLearningRate: decoupledRateAt(step),
});
const one = (step: number): OptimizerStepOptions => ({ learningRate: rateAt(step) });

it('updates tables of the vocabulary with a rate of their own, as torch.optim.AdamW with two groups', () => {
  const values = train({ optimizer: adamw, isDecoupled: isTable }, two);
  for (const [name, expected] of Object.entries(fixture.after)) {
    const differences = values[name]!.map((value, at) => Math.abs(value - expected[at]!));
    // float32 over 20 steps of at most 0.03
    expect(Math.max(...differences)).toBeLessThan(2e-6);
  }
});

it('gives all parameters the rate of a step that has one, with the bits of one group', () => {
  const expected = train({ optimizer: adamw }, one);
  const same = (step: number): OptimizerStepOptions => ({
    ...one(step),
    decoupledLearningRate: rateAt(step),
  });
  expect(train({ optimizer: adamw, isDecoupled: isTable }, one)).toEqual(expected);
  expect(train({ optimizer: adamw, isDecoupled: isTable }, same)).toEqual(expected);
  expect(train({ optimizer: adamw }, two)).toEqual(expected);
});

it('is for the tables alone next to Muon', () => {
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
  const optimizer = muonWith({ muon, auxiliary: adamw });
  const [values, ofOneRate] = [train({ optimizer, isDecoupled: isTable }, two), train({ optimizer }, one)];
  const tables = train({ optimizer: adamw, isDecoupled: isTable }, two);
  for (const name of fixture.tables) expect(values[name]).toEqual(tables[name]);
  for (const name of ['matrix', 'bias']) expect(values[name]).toEqual(ofOneRate[name]);
  expect(values.matrix).not.toEqual(tables.matrix);
});
