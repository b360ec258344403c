import { cast, numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  adaptedLinear,
  allocateParameters,
  initializeParameter,
  linear,
  linearCrossEntropy,
  linearGelu,
  linearResidual,
  type MatmulPrecision,
  Parameter,
  plainPrecision,
  Tape,
  type Variable,
} from './index.js';

const [rows, inputs, outputs] = [4, 6, 8];
const device = 'reference';
const dtype = 'float64';
let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

const parameter = (name: string, globalShape: readonly number[]): Parameter =>
  new Parameter({ name, globalShape, initialization: { kind: 'normal', standardDeviation: 0.5 } });

/**
 * Computes plain, unfused matmuls in which one operand is multiplied by `factor`, and counts the calls of
 * each matmul.
 */
class Scaled implements MatmulPrecision {
  readonly calls = { forward: 0, inputGradient: 0, weightGradient: 0 };
  readonly #factor: number;

  constructor(factor: number) {
    this.#factor = factor;
  }

  forward(call: Parameters<MatmulPrecision['forward']>[0]): void {
    this.calls.forward += 1;
    using weight = this.#scaled(call.weight);
    plainPrecision.forward({ ...call, weight });
  }

  inputGradient(call: Parameters<MatmulPrecision['inputGradient']>[0]): void {
    this.calls.inputGradient += 1;
    using weight = this.#scaled(call.weight);
    plainPrecision.inputGradient({ ...call, weight });
  }

  weightGradient(call: Parameters<MatmulPrecision['weightGradient']>[0]): void {
    this.calls.weightGradient += 1;
    using input = this.#scaled(call.input);
    plainPrecision.weightGradient({ ...call, input });
  }

  #scaled(tensor: Tensor): Tensor {
    const result = Tensor.empty({ shape: tensor.shape, dtype: tensor.dtype, device });
    cast({ output: result, input: tensor });
    result.write(Float64Array.from(tensor.toArray(), (value) => this.#factor * value));
    return result;
  }
}

type Operation = (tape: Tape, operands: Operands) => Variable;

interface Operands {
  readonly input: Variable;
  readonly residual: Variable;
  readonly weight: Parameter;
  readonly second: Parameter;
  readonly bias: Parameter;
}

const operations: Readonly<Record<string, Operation>> = {
  linear: (tape, { input, weight, bias }) => linear(tape, { input, weight, bias }),
  'linear without a bias': (tape, { input, weight }) => linear(tape, { input, weight }),
  // the input gradient of the second layer goes through GELU
  linearGelu: (tape, { input, weight, bias, second }) =>
    tape.scope(() => {
      const activated = linearGelu(tape, { input, weight, bias, kind: 'tanh' });
      return linear(tape, { input: activated, weight: second });
    }),
  linearResidual: (tape, operands) => linearResidual(tape, operands),
  linearCrossEntropy: (tape, { input, weight }) => {
    const shape = [rows, 1];
    const labels = tape.input(Tensor.from([1, 0, 3, 7], { shape, dtype: 'int32', device }));
    const weights = tape.input(Tensor.from([0.1, 0.2, 0.3, 0.4], { shape, dtype: 'float32', device }));
    const losses = linearCrossEntropy(tape, { input, labels, weights, weight, vocabularySize: outputs });
    for (const each of [labels, weights]) each.release();
    return losses;
  },
};

/** Runs `operation` forward and backward, using `precisions` to compute the matmuls of its weights. */
function compute(operation: Operation, precisions: readonly (MatmulPrecision | undefined)[], scale = 1) {
  const weight = parameter('weight', [outputs, inputs]);
  const second = parameter('second', [inputs, outputs]);
  const bias = parameter('bias', [outputs]);
  const all = [weight, second, bias];
  const storage = allocateParameters(all, { device, dtype, mainGradients: true });
  for (const each of all) initializeParameter(each, each.data, 3);
  weight.data.write(Float64Array.from(weight.data.toArray(), (value) => scale * value));
  [weight, second].forEach((each, index) => {
    const precision = precisions[index];
    if (precision !== undefined) each.computeWith(precision);
  });
  const tape = new Tape();
  const values = (size: number): Float64Array => Float64Array.from({ length: size }, (_, at) => Math.sin(at));
  const makeInput = (width: number): Variable =>
    tape.input(Tensor.from(values(rows * width), { shape: [rows, 1, width], dtype, device }), {
      requiresGradient: true,
    });
  const [input, residual] = [makeInput(inputs), makeInput(outputs)];
  const output = operation(tape, { input, residual, weight, second, bias });
  const isLoss = output.tensor.size === rows;
  const gradient = isLoss
    ? undefined
    : Tensor.from(values(output.tensor.size), { shape: output.tensor.shape, dtype, device });
  tape.backward(output, gradient);
  gradient?.dispose();
  const inputGradient = tape.takeGradient(input)!;
  const result = {
    output: output.tensor.toArray(),
    inputGradient: inputGradient.toArray(),
    weightGradient: weight.mainGradient.toArray(),
    biasGradient: bias.mainGradient.toArray(),
  };
  inputGradient.dispose();
  tape.dispose();
  for (const each of [input, residual, output]) each.release();
  storage.dispose();
  return result;
}

type Result = ReturnType<typeof compute>;

function expectClose(actual: Result, expected: Result): void {
  for (const key of Object.keys(expected) as (keyof Result)[]) {
    // float64: fused passes round once less often
    actual[key].forEach((value, at) => {
      expect(Math.abs(value - expected[key][at]!), `${key} ${at}`).toBeLessThan(1e-12);
    });
  }
}

describe.each(Object.entries(operations))('%s', (name, operation) => {
  it('asks the precision of its weight for each of the three matmuls', () => {
    const precision = new Scaled(1);
    expectClose(compute(operation, [precision]), compute(operation, []));
    expect(precision.calls.forward).toBeGreaterThan(0);
    expect(precision.calls).toMatchObject({ inputGradient: 1, weightGradient: 1 });
    if (name !== 'linearGelu') return;
    const second = new Scaled(1);
    expectClose(compute(operation, [undefined, second]), compute(operation, []));
    expect(second.calls).toEqual({ forward: 1, inputGradient: 1, weightGradient: 1 });
  });

  it('computes what the precision makes of it', () => {
    const scaled = compute(operation, [new Scaled(0.5)]);
    const expected = compute(operation, [], 0.5);
    // the gradient of the weight is half of the expected gradient
    const weightGradient = expected.weightGradient.map((value) => 0.5 * value);
    expectClose(scaled, { ...expected, weightGradient });
  });
});

it('comes from the frozen weight where adapters are trained', () => {
  const [weight, down, up] = [
    parameter('weight', [outputs, inputs]),
    parameter('down', [2, inputs]),
    parameter('up', [outputs, 2]),
  ];
  weight.freeze();
  const all = [weight, down, up];
  const storage = allocateParameters(all, { device, dtype, mainGradients: true });
  for (const each of all) initializeParameter(each, each.data, 3);
  const precision = new Scaled(1);
  weight.computeWith(precision);
  const tape = new Tape();
  const input = tape.input(Tensor.zeros({ shape: [rows, 1, inputs], dtype, device }), {
    requiresGradient: true,
  });
  const output = adaptedLinear(tape, { input, weight, adapters: { scale: 1, adapters: [{ down, up }] } });
  using gradient = Tensor.zeros({ shape: output.tensor.shape, dtype, device });
  tape.backward(output, gradient);
  expect(precision.calls).toEqual({ forward: 1, inputGradient: 1, weightGradient: 0 });
  tape.dispose();
  for (const each of [input, output]) each.release();
  storage.dispose();
});
