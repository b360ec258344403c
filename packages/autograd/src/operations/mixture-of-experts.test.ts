import { numLiveTensors, type RouterScoreFunction, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  combineRows,
  expertActivation,
  groupByExpert,
  groupedBias,
  groupedLinear,
  initializeParameter,
  linear,
  Parameter,
  permuteProbabilities,
  permuteRows,
  plainPrecision,
  recompute,
  rmsNorm,
  route,
  Tape,
  type TapeOptions,
  Variable,
} from '../index.js';

// S: sequence length. B: micro-batch size. H: hidden size. E: experts. k: slots of a row. F: MLP size.
const [sequence, batch, hidden, experts, topK, feedForward] = [3, 2, 6, 4, 2, 5];
const [device, dtype] = ['reference', 'float64'] as const;
const shape = [sequence, batch, hidden];

interface Model {
  readonly gain: Parameter;
  readonly router: Parameter;
  readonly first: Parameter;
  readonly firstBias: Parameter;
  readonly second: Parameter;
  readonly secondBias: Parameter;
}

let model: Model;
let all: Parameter[];
let dispose: () => void;
let live: number;

function build(frozen: readonly (keyof Model)[] = []): void {
  const make = (name: keyof Model, globalShape: number[]): Parameter => {
    const parameter = new Parameter({
      name,
      globalShape,
      initialization: { kind: 'normal', standardDeviation: 0.5 },
    });
    if (frozen.includes(name)) parameter.freeze();
    return parameter;
  };
  model = {
    gain: make('gain', [hidden]),
    router: make('router', [experts, hidden]),
    // the weight has a separate dimension for gates and values
    first: make('first', [experts, 2, feedForward, hidden]),
    firstBias: make('firstBias', [experts, 2, feedForward]),
    second: make('second', [experts, hidden, feedForward]),
    secondBias: make('secondBias', [experts, hidden]),
  };
  all = Object.values(model);
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

interface LayerOptions {
  readonly scoreFunction?: RouterScoreFunction;
  readonly hasBiases?: boolean;
  /** The experts of all slots, which replace the router's selection. */
  readonly chosen?: readonly number[];
}

const constant = (values: readonly number[], itsShape: readonly number[]): Variable =>
  new Variable(Tensor.from(values, { shape: itsShape, dtype: 'int32', device }), { requiresGradient: false });

/** Builds the sum of k experts' outputs for the normalized input, weighted before their second matmul. */
function buildLayer({ scoreFunction = 'sigmoid', hasBiases = true, chosen }: LayerOptions) {
  return (tape: Tape, residual: Variable): Variable =>
    tape.scope(() => {
      const input = rmsNorm(tape, { input: residual, weight: model.gain, epsilon: 1e-5 });
      const logits = linear(tape, { input, weight: model.router });
      const given = chosen && constant(chosen, [sequence * batch, topK]);
      const options = { logits, topK, scoreFunction, scalingFactor: 1.5 };
      const { probabilities, experts: ofSlots } = route(tape, { ...options, experts: given });
      given?.release();
      const groups = groupByExpert(tape, { experts: ofSlots, numExperts: experts });
      const { offsets } = groups;
      const rows = permuteRows(tape, { input, grouping: groups });
      const factors = permuteProbabilities(tape, { probabilities, grouping: groups });
      const expanded = groupedLinear(tape, { input: rows, weight: model.first, offsets });
      const activated = expertActivation(tape, {
        input: expanded,
        bias: hasBiases ? model.firstBias : undefined,
        probabilities: factors,
        offsets,
        activation: 'swiglu',
      });
      const output = groupedLinear(tape, { input: activated, weight: model.second, offsets });
      const biased = hasBiases
        ? groupedBias(tape, { input: output, bias: model.secondBias, probabilities: factors, offsets })
        : output;
      return combineRows(tape, { rows: biased, grouping: groups, shape });
    });
}

interface RunOptions extends LayerOptions {
  readonly tape?: TapeOptions;
  readonly split?: boolean;
  readonly recomputed?: boolean;
  readonly values?: readonly number[];
}

const inputValues = Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index + 1));
const outputGradients = inputValues.map((_, index) => Math.cos(3 * index));

function run({ tape: tapeOptions = {}, split, recomputed, values = inputValues, ...layer }: RunOptions) {
  for (const parameter of all) if (parameter.hasMainGradient) parameter.mainGradient.zero();
  const tape = new Tape(tapeOptions);
  const input = tape.input(Tensor.from(values, { shape, dtype, device }), { requiresGradient: true });
  const body = buildLayer(layer);
  const output = recomputed ? recompute(tape, input, body) : body(tape, input);
  using outputGradient = Tensor.from(outputGradients, { shape, dtype, device });
  const trained = all.filter(({ isFrozen }) => !isFrozen);
  if (split) {
    tape.backwardInput(output, outputGradient);
    // if only the input half of backward runs, all weight gradients stay 0, including the gradient of the
    // router's weight
    for (const { mainGradient } of trained) expect(Math.max(...mainGradient.toArray().map(Math.abs))).toBe(0);
    tape.backwardWeight();
  } else {
    tape.backward(output, outputGradient);
  }
  using inputGradient = tape.takeGradient(input)!;
  const result = {
    output: output.tensor.toArray(),
    input: inputGradient.toArray(),
    gradients: trained.map(({ mainGradient }) => mainGradient.toArray()),
  };
  for (const variable of [output, input]) variable.release();
  tape.dispose();
  return result;
}

/**
 * Computes the sum of the output times a fixed output gradient. Its derivatives are the gradients that
 * backward must compute.
 */
const projected = (options: RunOptions): number =>
  run(options).output.reduce((sum, value, index) => sum + value * outputGradients[index]!, 0);

describe('a mixture-of-experts layer', () => {
  it('keeping, rematerializing, splitting and recomputing all give the same bits', () => {
    build();
    const expected = run({ tape: { rematerialize: false } });
    expect(expected.gradients).toHaveLength(6);
    for (const gradient of [expected.input, ...expected.gradients])
      expect(gradient.some((value) => value !== 0)).toBe(true);
    expect(run({})).toEqual(expected);
    expect(run({ split: true })).toEqual(expected);
    expect(run({ recomputed: true })).toEqual(expected);
    expect(run({ recomputed: true, split: true })).toEqual(expected);
  });

  it.each(['softmax', 'sigmoid', 'sqrtsoftplus'] as const)(
    'has the gradients of central differences: %s',
    (scoreFunction) => {
      build();
      const { input, gradients } = run({ scoreFunction });
      const step = 1e-6;
      const expectDerivative = (actual: number, at: (delta: number) => number, what: string): void => {
        // the error in float64 is about the step squared, plus the rounding of the loss divided by the step:
        // 1e-15 / 1e-6 = 1e-9
        expect(Math.abs(actual - (at(step) - at(-step)) / (2 * step)), what).toBeLessThan(2e-8);
      };
      all.forEach((parameter, index) => {
        const before = parameter.data.toArray();
        // every seventh element, of all experts
        for (let at = 0; at < parameter.size; at += 7) {
          const lossAt = (delta: number): number => {
            parameter.data.write(Float64Array.from(before, (value, i) => (i === at ? value + delta : value)));
            return projected({ scoreFunction });
          };
          expectDerivative(gradients[index]![at]!, lossAt, `${parameter.name}[${at}]`);
        }
        parameter.data.write(Float64Array.from(before));
      });
      for (let at = 0; at < inputValues.length; at += 5) {
        const lossAt = (delta: number): number =>
          projected({
            scoreFunction,
            values: inputValues.map((value, i) => (i === at ? value + delta : value)),
          });
        expectDerivative(input[at]!, lossAt, `input[${at}]`);
      }
    },
  );

  it('routes as it is told: experts without rows have no gradient', () => {
    build();
    const chosen = Array.from({ length: sequence * batch * topK }, (_, slot) => (slot % 2 === 0 ? 3 : 1));
    const { gradients } = run({ chosen });
    const [, , first, , second] = gradients;
    const isIdle = (gradient: number[], expert: number): boolean => {
      const size = gradient.length / experts;
      return gradient.slice(expert * size, (expert + 1) * size).every((value) => value === 0);
    };
    for (const gradient of [first!, second!])
      expect([0, 1, 2, 3].map((expert) => isIdle(gradient, expert))).toEqual([true, false, true, false]);
    // without `chosen`, the router selects different experts
    expect(run({}).output).not.toEqual(run({ chosen }).output);
  });

  it('writes the first gradient of a weight that is marked clear, of idle experts too', () => {
    build();
    const chosen = Array.from({ length: sequence * batch * topK }, (_, slot) => (slot % 2 === 0 ? 3 : 1));
    const expected = run({ chosen });
    const zero = model.first.mainGradient.zero.bind(model.first.mainGradient);
    model.first.mainGradient.zero = () => {
      model.first.mainGradient.write(new Float64Array(model.first.size).fill(Number.NaN));
      model.first.markGradientClear();
    };
    expect(run({ chosen })).toEqual(expected);
    model.first.mainGradient.zero = zero;
  });

  it('has no gradients of frozen weights and biases, and all others', () => {
    build();
    const whole = run({});
    dispose();
    build(['first', 'secondBias']);
    const { gradients, ...rest } = run({});
    expect(rest).toEqual({ output: whole.output, input: whole.input });
    expect(gradients).toEqual([0, 1, 3, 4].map((index) => whole.gradients[index]));
    expect(run({ split: true }).gradients).toEqual(gradients);
  });

  it('keeps the input for backward in place of the permuted rows', () => {
    build();
    const computeGradient = (rematerialize: boolean): number[] => {
      model.first.mainGradient.zero();
      const tape = new Tape({ rematerialize });
      const made: Record<string, Variable> = {};
      const output = tape.scope(() => {
        const tensor = Tensor.from(inputValues, { shape, dtype, device });
        const normalized = rmsNorm(tape, {
          input: tape.input(tensor, { requiresGradient: true }),
          weight: model.gain,
          epsilon: 1e-5,
        });
        const slots = Array.from({ length: sequence * batch * topK }, (_, slot) => slot % experts);
        const chosen = constant(slots, [sequence * batch, topK]);
        const groups = groupByExpert(tape, { experts: chosen, numExperts: experts });
        chosen.release();
        const rows = permuteRows(tape, { input: normalized, grouping: groups });
        Object.assign(made, { normalized, rows });
        return groupedLinear(tape, { input: rows, weight: model.first, offsets: groups.offsets });
      });
      expect(made.rows!.tensor.isDisposed).toBe(rematerialize);
      expect(made.normalized!.tensor.isDisposed).toBe(!rematerialize);
      using outputGradient = Tensor.from(
        Array.from({ length: output.tensor.size }, (_, index) => Math.cos(index)),
        { shape: output.tensor.shape, dtype, device },
      );
      tape.backward(output, outputGradient);
      output.release();
      tape.dispose();
      return model.first.mainGradient.toArray();
    };
    const kept = computeGradient(false);
    expect(kept.some((value) => value !== 0)).toBe(true);
    expect(computeGradient(true)).toEqual(kept);
  });

  it('refuses weights of another precision', () => {
    build();
    model.first.computeWith({ ...plainPrecision });
    const tape = new Tape();
    const input = tape.input(Tensor.zeros({ shape: [2, 1, hidden], dtype, device }));
    const offsets = constant([0, 1, 1, 2, 2], [5]);
    expect(() => groupedLinear(tape, { input, weight: model.first, offsets })).toThrow(
      expect.objectContaining({ code: 'MTL_UNSUPPORTED' }),
    );
    for (const variable of [input, offsets]) variable.release();
  });
});
