import { numLiveTensors, rotaryTable, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  attention,
  biasDropoutResidual,
  initializeParameter,
  linear,
  Parameter,
  prepareHeads,
  recompute,
  rmsNorm,
  splitProjection,
  squaredRelu,
  swiglu,
  Tape,
  type TapeOptions,
  Variable,
  wholeHeadNorm,
} from '../index.js';

// S: sequence length. B: micro-batch size. H: hidden size. A: query heads, in G groups. D: head size. F: MLP
// size.
const [sequence, batch, hidden, heads, groups, size, feedForward] = [3, 2, 6, 4, 2, 5, 7];
const width = (heads + 2 * groups) * size;
const [device, dtype] = ['reference', 'float64'] as const;
const epsilon = 1e-5;

interface Model {
  readonly gain: Parameter;
  readonly qkv: Parameter;
  readonly queryGain: Parameter;
  readonly keyGain: Parameter;
  readonly queryShift: Parameter;
  readonly keyShift: Parameter;
  readonly allQueriesGain: Parameter;
  readonly allKeysGain: Parameter;
  readonly projection: Parameter;
  readonly first: Parameter;
  readonly middle: Parameter;
  readonly second: Parameter;
}

let model: Model;
let all: Parameter[];
let table: Tensor;
let dispose: () => void;
let live: number;

beforeEach(() => {
  live = numLiveTensors();
  const make = (name: string, globalShape: number[]): Parameter =>
    new Parameter({ name, globalShape, initialization: { kind: 'normal', standardDeviation: 0.5 } });
  model = {
    gain: make('gain', [hidden]),
    qkv: make('qkv', [width, hidden]),
    queryGain: make('query gain', [size]),
    keyGain: make('key gain', [size]),
    queryShift: make('query shift', [size]),
    keyShift: make('key shift', [size]),
    allQueriesGain: make('gain of all queries', [heads * size]),
    allKeysGain: make('gain of all keys', [groups * size]),
    projection: make('projection', [hidden, heads * size]),
    first: make('first', [2 * feedForward, hidden]),
    middle: make('middle', [2 * feedForward, 2 * feedForward]),
    second: make('second', [hidden, feedForward]),
  };
  all = Object.values(model);
  const storage = allocateParameters(all, { device, dtype, mainGradients: true });
  for (const parameter of all) initializeParameter(parameter, parameter.data, 3);
  table = rotaryTable({ numPositions: 9, rotarySize: 4, base: 100, device });
  dispose = () => {
    storage.dispose();
    table.dispose();
  };
});
afterEach(() => {
  dispose();
  expect(numLiveTensors()).toBe(live);
});

interface LayerOptions {
  readonly norm?: 'rms' | 'layer' | 'whole' | 'none';
  readonly rotation?: boolean;
  readonly activation?: 'swiglu' | 'squaredRelu';
}

const headNorm = (hasBiases: boolean) => ({
  queryWeight: model.queryGain,
  keyWeight: model.keyGain,
  epsilon,
  ...(hasBiases && { queryBias: model.queryShift, keyBias: model.keyShift }),
});

/**
 * Builds `x + project(attention(prepareHeads(linear(rmsNorm(x)))))`, then `x +
 * linear(activation(linear(rmsNorm(x))))`.
 */
function buildLayer(options: LayerOptions) {
  const { norm = 'rms', rotation = true, activation = 'swiglu' } = options;
  return (tape: Tape, x: Variable): Variable =>
    tape.scope(() => {
      const positions = new Variable(
        Tensor.from([0, 7, 1, 8, 2, 0], { shape: [sequence, batch], dtype: 'int32', device }),
        { requiresGradient: false },
      );
      const normalized = rmsNorm(tape, { input: x, weight: model.gain, epsilon });
      const projected = linear(tape, { input: normalized, weight: model.qkv });
      const sizes = { numGroups: groups, headSize: size };
      const whole =
        norm === 'whole'
          ? wholeHeadNorm(tape, {
              qkv: projected,
              ...sizes,
              queryWeight: model.allQueriesGain,
              keyWeight: model.allKeysGain,
              epsilon,
            })
          : projected;
      const qkv = prepareHeads(tape, {
        qkv: whole,
        ...sizes,
        norm: norm === 'none' || norm === 'whole' ? undefined : headNorm(norm === 'layer'),
        rotation: rotation ? { positions, table } : undefined,
      });
      const attended = attention(tape, {
        ...splitProjection(tape, { qkv, ...sizes }),
        visibility: { causal: true },
      });
      positions.release();
      const input = linear(tape, { input: attended, weight: model.projection });
      const residual = biasDropoutResidual(tape, { input, residual: x });
      const again = rmsNorm(tape, { input: residual, weight: model.gain, epsilon });
      const expanded = linear(tape, { input: again, weight: model.first });
      const activated =
        activation === 'swiglu'
          ? swiglu(tape, { input: expanded })
          : swiglu(tape, {
              input: linear(tape, {
                input: squaredRelu(tape, { input: expanded }),
                weight: model.middle,
              }),
            });
      return biasDropoutResidual(tape, {
        input: linear(tape, { input: activated, weight: model.second }),
        residual,
      });
    });
}

const shape = [sequence, batch, hidden];
const start = Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index));
const weights = start.map((_, index) => Math.cos(2 * index));

interface RunOptions extends LayerOptions {
  readonly tape?: TapeOptions;
  readonly recomputed?: boolean;
  readonly split?: boolean;
}

/** Computes the gradients of `sum(weights * output)` with respect to the input and every parameter. */
function computeGradients(options: RunOptions): number[][] {
  for (const parameter of all) parameter.mainGradient.zero();
  const tape = new Tape(options.tape);
  const input = tape.input(Tensor.from(start, { shape, dtype, device }), { requiresGradient: true });
  const layer = buildLayer(options);
  const output = options.recomputed ? recompute(tape, input, layer) : layer(tape, input);
  using outputGradient = Tensor.from(weights, { shape, dtype, device });
  if (options.split) {
    tape.backwardInput(output, outputGradient);
    for (const { mainGradient } of all)
      expect(mainGradient.toArray().every((value) => value === 0)).toBe(true);
    tape.backwardWeight();
  } else {
    tape.backward(output, outputGradient);
  }
  using inputGradient = tape.takeGradient(input)!;
  const gradients = [inputGradient, ...all.map(({ mainGradient }) => mainGradient)];
  const result = gradients.map((gradient) => gradient.toArray());
  output.release();
  input.release();
  tape.dispose();
  return result;
}

/** Computes `sum(weights * output)`, with `values` as the values of the input. */
function objective(options: LayerOptions, values: readonly number[] = start): number {
  const tape = new Tape({ recording: false });
  const input = tape.input(Tensor.from(values, { shape, dtype, device }));
  const output = buildLayer(options)(tape, input);
  const result = output.tensor.toArray().reduce((sum, value, index) => sum + value * weights[index]!, 0);
  output.release();
  input.release();
  return result;
}

const step = 1e-5;
const difference = (of: (change: number) => number): number => (of(step) - of(-step)) / (2 * step);

/**
 * Computes the same gradients as `computeGradients`, but by central differences; for each parameter, only the
 * gradients of the first few elements.
 */
function computeDifferences(options: LayerOptions): number[][] {
  const moved = (values: readonly number[], index: number, change: number): number[] =>
    values.map((value, at) => (at === index ? value + change : value));
  const ofInput = start.map((_, index) =>
    difference((change) => objective(options, moved(start, index, change))),
  );
  const ofParameters = all.map(({ data }) => {
    const values = data.toArray();
    const gradient = values.slice(0, 8).map((_, index) =>
      difference((change) => {
        data.write(Float64Array.from(moved(values, index, change)));
        return objective(options);
      }),
    );
    data.write(Float64Array.from(values));
    return gradient;
  });
  return [ofInput, ...ofParameters];
}

const kinds: ReadonlyArray<readonly [string, LayerOptions]> = [
  ['norm, rotation and swiglu', {}],
  ['layer norm of heads and rotation', { norm: 'layer' }],
  ['rotation', { norm: 'none' }],
  ['norm', { rotation: false }],
  ['norm of all heads together and rotation', { norm: 'whole' }],
  ['layer norm of heads', { norm: 'layer', rotation: false }],
  ['squared ReLU', { activation: 'squaredRelu' }],
];

describe.each(kinds)('a layer of a Llama with %s', (_, options) => {
  it('has the gradients of central differences', () => {
    const gradients = computeGradients(options);
    computeDifferences(options).forEach((expected, tensor) => {
      expected.forEach((value, index) => {
        // with a step of 1e-5 in float64, the error is about 1e-10 for a function of this size; the bound has
        // a margin
        expect(Math.abs(gradients[tensor]![index]! - value), `${tensor}: ${index}`).toBeLessThan(
          1e-7 * (1 + Math.abs(value)),
        );
      });
    });
  });

  it('has the same bits kept, rematerialized, in halves and recomputed', () => {
    const expected = computeGradients({ ...options, tape: { rematerialize: false } });
    for (const how of [{}, { split: true }, { recomputed: true }, { recomputed: true, split: true }])
      expect(computeGradients({ ...options, ...how })).toEqual(expected);
  });
});

it('normalizes queries and keys by the formula of layer norm, and leaves values as they are', () => {
  const tape = new Tape({ recording: false });
  const values = Array.from({ length: sequence * batch * width }, (_, index) => 3 * Math.sin(index * index));
  const qkv = tape.input(Tensor.from(values, { shape: [sequence, batch, width], dtype, device }));
  const result = prepareHeads(tape, { qkv, numGroups: groups, headSize: size, norm: headNorm(true) });
  const found = result.tensor.toArray();
  const partsOfGroup = heads / groups + 2;
  const parameters = (part: number): readonly number[][] =>
    (part < partsOfGroup - 2 ? [model.queryGain, model.queryShift] : [model.keyGain, model.keyShift]).map(
      ({ data }) => data.toArray(),
    );
  for (let start = 0; start < values.length; start += size) {
    const head = values.slice(start, start + size);
    const part = (start / size) % partsOfGroup;
    const mean = head.reduce((sum, value) => sum + value, 0) / size;
    const variance = head.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
    const [weight, bias] = parameters(part) as [number[], number[]];
    head.forEach((value, index) => {
      const normalized = ((value - mean) / Math.sqrt(variance + epsilon)) * weight[index]! + bias[index]!;
      // float64 on both sides
      expect(found[start + index]).toBeCloseTo(part === partsOfGroup - 1 ? value : normalized, 12);
    });
  }
  result.release();
  qkv.release();
});

it('refuses to prepare heads without norm and rotation', () => {
  const tape = new Tape();
  const qkv = tape.input(Tensor.zeros({ shape: [sequence, batch, width], dtype, device }));
  expect(() => prepareHeads(tape, { qkv, numGroups: groups, headSize: size })).toThrow(
    'prepareHeads: neither norm nor rotation is given',
  );
  qkv.release();
});
