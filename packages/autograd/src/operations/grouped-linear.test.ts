import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  adaptedGroupedLinear,
  allocateParameters,
  groupedLinear,
  initializeParameter,
  Parameter,
  plainPrecision,
  Tape,
  Variable,
} from '../index.js';

// R rows in G groups (the third group is empty), K inputs, 2 * F outputs (F = width), adapters of rank r
const [rows, inputs, width, rank] = [7, 5, 3, 2];
const offsets = [0, 2, 6, 6, 7];
const groups = offsets.length - 1;
const factor = 0.75;
const [device, dtype] = ['reference', 'float64'] as const;

interface Layer {
  readonly weight: Parameter;
  readonly down: Parameter;
  readonly up: Parameter;
}

let layer: Layer;
let dispose: () => void;
let live: number;

function build(frozen: readonly (keyof Layer)[] = ['weight']): void {
  const make = (name: keyof Layer, globalShape: number[]): Parameter => {
    const parameter = new Parameter({
      name,
      globalShape,
      initialization: { kind: 'normal', standardDeviation: 0.5 },
    });
    if (frozen.includes(name)) parameter.freeze();
    return parameter;
  };
  layer = {
    weight: make('weight', [groups, 2, width, inputs]),
    down: make('down', [groups, rank, inputs]),
    up: make('up', [groups, 2, width, rank]),
  };
  const all = Object.values(layer) as Parameter[];
  const storage = allocateParameters(all, { device, dtype, mainGradients: true });
  for (const parameter of all) initializeParameter(parameter, parameter.data, 3);
  dispose = () => storage.dispose();
}

beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => {
  dispose();
  expect(numLiveTensors()).toBe(live);
});

const inputValues = Array.from({ length: rows * inputs }, (_, index) => Math.sin(index + 1));
const outputGradients = Array.from({ length: rows * 2 * width }, (_, index) => Math.cos(3 * index));

function run({ values = inputValues, split = false, isAdapted = true } = {}) {
  for (const parameter of [layer.down, layer.up]) {
    if (parameter.hasMainGradient) parameter.mainGradient.zero();
  }
  const tape = new Tape();
  const input = tape.input(Tensor.from(values, { shape: [rows, 1, inputs], dtype, device }), {
    requiresGradient: true,
  });
  const bounds = new Variable(Tensor.from(offsets, { shape: [groups + 1], dtype: 'int32', device }), {
    requiresGradient: false,
  });
  const { weight, down, up } = layer;
  const options = { input, weight, offsets: bounds };
  const output = isAdapted
    ? adaptedGroupedLinear(tape, { ...options, adapter: { down, up, scale: factor } })
    : groupedLinear(tape, options);
  using outputGradient = Tensor.from(outputGradients, { shape: output.tensor.shape, dtype, device });
  const gradients = () =>
    [down, up].map((each) => (each.hasMainGradient ? each.mainGradient.toArray() : undefined));
  if (split) {
    tape.backwardInput(output, outputGradient);
    for (const values of gradients()) expect(values?.some((value) => value !== 0)).toBe(false);
    tape.backwardWeight();
  } else {
    tape.backward(output, outputGradient);
  }
  using inputGradient = tape.takeGradient(input)!;
  const result = {
    output: output.tensor.toArray(),
    input: inputGradient.toArray(),
    gradients: gradients(),
  };
  for (const variable of [output, input, bounds]) variable.release();
  tape.dispose();
  return result;
}

describe('a grouped layer with adapters', () => {
  it('computes what weights with merged adapters do', () => {
    build();
    const adapted = run();
    const [weights, down, up] = [layer.weight, layer.down, layer.up].map(({ data }) => data.toArray());
    const outputs = 2 * width;
    const merged = weights!.map((value, at) => {
      const [column, output] = [at % inputs, Math.floor(at / inputs) % outputs];
      const group = Math.floor(at / (inputs * outputs));
      const added = Array.from(
        { length: rank },
        (_, k) => up![(group * outputs + output) * rank + k]! * down![(group * rank + k) * inputs + column]!,
      );
      return value + factor * added.reduce((sum, product) => sum + product, 0);
    });
    layer.weight.data.write(Float64Array.from(merged));
    const expected = run({ isAdapted: false });
    const distance = (one: readonly number[], other: readonly number[]): number =>
      Math.max(...one.map((value, at) => Math.abs(value - other[at]!)));
    // in float64, sums of a dozen terms near 1 differ only by the order of summation
    expect(distance(adapted.output, expected.output)).toBeLessThan(1e-14);
    expect(distance(adapted.input, expected.input)).toBeLessThan(1e-14);
  });

  it('has the gradients of central differences, and none of a group without rows', () => {
    build();
    const { input, gradients } = run();
    const projected = (values?: readonly number[]): number =>
      run(values === undefined ? {} : { values: [...values] }).output.reduce(
        (sum, value, at) => sum + value * outputGradients[at]!,
        0,
      );
    const step = 1e-5;
    const expectDerivative = (actual: number, at: (delta: number) => number, what: string): void => {
      // the loss is linear in each value, so the error in float64 is only the rounding of the loss divided by
      // the step: 1e-14 / 1e-5 = 1e-9
      expect(Math.abs(actual - (at(step) - at(-step)) / (2 * step)), what).toBeLessThan(1e-8);
    };
    [layer.down, layer.up].forEach((parameter, index) => {
      const before = parameter.data.toArray();
      before.forEach((_, at) => {
        const lossAt = (delta: number): number => {
          parameter.data.write(Float64Array.from(before, (value, i) => (i === at ? value + delta : value)));
          return projected();
        };
        expectDerivative(gradients[index]![at]!, lossAt, `${parameter.name}[${at}]`);
      });
      parameter.data.write(Float64Array.from(before));
      const size = before.length / groups;
      expect(gradients[index]!.slice(2 * size, 3 * size).every((value) => value === 0)).toBe(true);
    });
    input.forEach((value, at) => {
      const lossAt = (delta: number): number =>
        projected(inputValues.map((each, i) => (i === at ? each + delta : each)));
      expectDerivative(value, lossAt, `input[${at}]`);
    });
  });

  it('gives the same bits with backward in two halves', () => {
    build();
    const whole = run();
    expect(run({ split: true })).toEqual(whole);
  });

  it('computes the gradient of a factor only if it is not frozen', () => {
    build();
    const whole = run();
    dispose();
    build(['weight', 'down']);
    expect(run()).toEqual({ ...whole, gradients: [undefined, whole.gradients[1]] });
  });

  it.each([
    ['a weight that is trained', [] as const, 'MTL_FROZEN'],
    ['factors of another precision', ['weight'] as const, 'MTL_UNSUPPORTED'],
  ])('refuses %s', (_, frozen, code) => {
    build([...frozen]);
    layer.up.computeWith({ ...plainPrecision });
    if (code === 'MTL_FROZEN') layer.up.computeWith(plainPrecision);
    const tape = new Tape();
    const { weight, down, up } = layer;
    const input = tape.input(Tensor.zeros({ shape: [rows, 1, inputs], dtype, device }));
    const bounds = tape.input(Tensor.from(offsets, { shape: [groups + 1], dtype: 'int32', device }));
    expect(() =>
      adaptedGroupedLinear(tape, { input, weight, offsets: bounds, adapter: { down, up, scale: 1 } }),
    ).toThrow(expect.objectContaining({ code }));
    for (const variable of [input, bounds]) variable.release();
    tape.dispose();
  });
});
