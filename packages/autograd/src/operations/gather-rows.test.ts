import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  allocateParameters,
  gatherRows,
  initializeParameter,
  linearCrossEntropy,
  Parameter,
  Tape,
  tanh,
  Variable,
} from '../index.js';

const device = 'reference';
const dtype = 'float64';
const [sequence, batch, hidden, classes] = [4, 2, 3, 5];
const values = Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index));

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

const ids = (list: readonly number[]): Variable =>
  new Variable(Tensor.from(list, { shape: [list.length], dtype: 'int32', device }), {
    requiresGradient: false,
  });

function gathered(indices: readonly number[], firstRow?: number): { rows: number[]; gradient: number[] } {
  const tape = new Tape();
  const shape = [sequence, batch, hidden];
  const input = tape.input(Tensor.from(values, { shape, dtype, device }), { requiresGradient: true });
  const chosen = ids(indices);
  const output = gatherRows(tape, {
    input,
    indices: chosen,
    ...(firstRow === undefined ? {} : { firstRow }),
  });
  expect(output.tensor.shape).toEqual([indices.length, 1, hidden]);
  // the output's gradient has the value r + 1 in every element of row r
  const ones = indices.flatMap((_, row) => new Array<number>(hidden).fill(row + 1));
  using outputGradient = Tensor.from(ones, { shape: output.tensor.shape, dtype, device });
  tape.backward(output, outputGradient);
  using gradient = tape.takeGradient(input)!;
  expect(gradient.shape).toEqual(shape);
  const result = { rows: output.tensor.toArray(), gradient: gradient.toArray() };
  for (const variable of [output, input, chosen]) variable.release();
  tape.dispose();
  return result;
}

it('takes the chosen rows; backward sums the gradients of one that was chosen twice', () => {
  const { rows, gradient } = gathered([6, 0, 6]);
  expect(rows).toEqual([6, 0, 6].flatMap((row) => values.slice(row * hidden, (row + 1) * hidden)));
  const expected = new Array<number>(values.length).fill(0);
  expected.fill(2, 0, hidden);
  expected.fill(1 + 3, 6 * hidden, 7 * hidden);
  expect(gradient).toEqual(expected);
});

it('gives zeros for rows of other processes, and takes no gradient from them', () => {
  const { rows, gradient } = gathered([9, 4, 12], 8);
  expect(rows).toEqual([
    ...values.slice(hidden, 2 * hidden),
    ...[0, 0, 0],
    ...values.slice(4 * hidden, 5 * hidden),
  ]);
  expect(gradient.reduce((sum, value) => sum + value, 0)).toBe(hidden * (1 + 3));
});

it('plays back two losses from one tape, biases included, in halves as in one sweep', () => {
  const initialization = { kind: 'normal', standardDeviation: 0.7 } as const;
  const weight = new Parameter({ name: 'weight', globalShape: [classes, hidden], initialization });
  const bias = new Parameter({ name: 'bias', globalShape: [classes], initialization });
  const parameters = [weight, bias];
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 5);

  const run = (inHalves: boolean): { loss: number; gradients: number[]; input: number[] } => {
    for (const { mainGradient } of parameters) mainGradient.zero();
    const tape = new Tape();
    const shape = [sequence, batch, hidden];
    const input = tape.input(Tensor.from(values, { shape, dtype, device }), { requiresGradient: true });
    const inputs: Variable[] = [];
    const keep = (variable: Variable): Variable => {
      inputs.push(variable);
      return variable;
    };
    const weights = (list: readonly number[]): Variable =>
      keep(
        new Variable(Tensor.from(list, { shape: [list.length], dtype: 'float64', device }), {
          requiresGradient: false,
        }),
      );
    const losses = tape.scope(() =>
      [[1, 7, 3], [0]].map((rows) =>
        linearCrossEntropy(tape, {
          input: tanh(tape, gatherRows(tape, { input, indices: keep(ids(rows)) })),
          weight,
          bias,
          vocabularySize: 4,
          labels: keep(ids(rows.map((row) => row % 4))),
          weights: weights(rows.map((_, index) => 0.25 * (index + 1))),
        }),
      ),
    );
    if (inHalves) {
      tape.backwardInput(losses);
      expect(bias.mainGradient.toArray()).toEqual([0, 0, 0, 0, 0]);
      tape.backwardWeight();
    } else {
      tape.backward(losses);
    }
    const loss = losses
      .flatMap(({ tensor }) => tensor.toArray().map((value, index) => value * 0.25 * (index + 1)))
      .reduce((sum, value) => sum + value, 0);
    using inputGradient = tape.takeGradient(input)!;
    const result = {
      loss,
      gradients: parameters.flatMap(({ mainGradient }) => mainGradient.toArray()),
      input: inputGradient.toArray(),
    };
    for (const variable of [...losses, ...inputs, input]) variable.release();
    tape.dispose();
    return result;
  };

  const whole = run(false);
  expect(run(true)).toEqual(whole);
  // the padded class takes no part
  expect(whole.gradients.at(-1)).toBe(0);
  const step = 1e-6;
  const size = (index: number): [Parameter, number] =>
    index < weight.size ? [weight, index] : [bias, index - weight.size];
  for (const [index, gradient] of whole.gradients.entries()) {
    const [parameter, at] = size(index);
    const before = parameter.data.toArray();
    const lossAt = (delta: number): number => {
      parameter.data.write(Float64Array.from(before, (value, i) => (i === at ? value + delta : value)));
      return run(false).loss;
    };
    const difference = (lossAt(step) - lossAt(-step)) / (2 * step);
    parameter.data.write(Float64Array.from(before));
    // the error of central differences in float64 is about the square of the step, plus the rounding of the
    // loss divided by the step: 1e-16 / 1e-6 = 1e-10
    expect(Math.abs(gradient - difference)).toBeLessThan(1e-8);
  }
  storage.dispose();
});
