import { type Device, type DType, numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  biasDropoutResidual,
  initializeParameter,
  type LinearOptions,
  linear,
  linearGelu,
  linearResidual,
  Parameter,
  Tape,
  type Variable,
} from '../index.js';

const [sequence, batch, hidden, feedForward] = [3, 2, 8, 24];
const normal = { kind: 'normal', standardDeviation: 0.5 } as const;

interface Network {
  readonly dtype: DType;
  readonly device?: Device;
  /** True if one pass adds bias and residual to the matmul. */
  readonly fused: boolean;
  readonly hasBias?: boolean;
  readonly split?: boolean;
  readonly isFrozen?: boolean;
}

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

/** Runs `x + down(gelu(up(x)))` and returns its output and all gradients. */
function run({ dtype, device = 'cpu', fused, hasBias = true, split = false, isFrozen = false }: Network) {
  const make = (name: string, globalShape: number[]): Parameter =>
    new Parameter({ name, globalShape, initialization: normal });
  const up = { weight: make('up', [feedForward, hidden]), bias: make('up bias', [feedForward]) };
  const [weight, bias] = [make('down', [hidden, feedForward]), make('down bias', [hidden])];
  const parameters = [up.weight, up.bias, weight, bias];
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  for (const parameter of parameters) {
    using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32' });
    initializeParameter(parameter, values, 7);
    using converted = Tensor.from(values.toArray(), { shape: [parameter.size], dtype });
    parameter.data.write(converted.read());
    parameter.mainGradient.zero();
  }
  const makeTensor = (scale: number): Tensor =>
    Tensor.from(
      Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index * scale)),
      { shape: [sequence, batch, hidden], dtype, device },
    );
  const tape = new Tape();
  const input = tape.input(makeTensor(1), { requiresGradient: true });
  const residual = tape.input(makeTensor(2), { requiresGradient: !isFrozen });
  const own = hasBias ? { bias } : {};
  const output = tape.scope((): Variable => {
    const activated = linearGelu(tape, { input, ...up, kind: 'tanh' });
    if (fused) return linearResidual(tape, { input: activated, weight, ...own, residual });
    return biasDropoutResidual(tape, { input: linear(tape, { input: activated, weight }), ...own, residual });
  });
  using outputGradient = makeTensor(3);
  if (split) {
    tape.backwardInput([output], outputGradient);
    tape.backwardWeight();
  } else {
    tape.backward([output], outputGradient);
  }
  const gradients = [input, residual].map((variable) => tape.takeGradient(variable));
  const results = [output.tensor, ...gradients].map((tensor) => tensor?.toArray());
  results.push(...parameters.map(({ mainGradient }) => mainGradient.toArray()));
  for (const gradient of gradients) gradient?.dispose();
  for (const variable of [output, input, residual]) variable.release();
  tape.dispose();
  storage.dispose();
  return results;
}

describe('linear with a residual', () => {
  const cases = (['float32', 'bfloat16'] as const).flatMap((dtype) =>
    [true, false].map((hasBias) => ({ dtype, hasBias })),
  );

  it.each(cases)('gives the bits of layer, then bias and residual: $dtype, bias $hasBias', (network) => {
    const expected = run({ ...network, fused: false });
    const [output, inputGradient, residualGradient] = expected;
    for (const values of [output, inputGradient, residualGradient])
      expect(values!.some((value) => value !== 0)).toBe(true);
    expect(run({ ...network, fused: true })).toEqual(expected);
    expect(run({ ...network, fused: true, split: true })).toEqual(expected);
  });

  it('has no collectives, which would add the residual once for each process', () => {
    const ofProcesses = (tape: Tape, options: Required<LinearOptions> & { residual: Variable }): Variable =>
      // @ts-expect-error
      linearResidual(tape, options);
    expect(ofProcesses).toBeTypeOf('function');
  });

  it('passes no gradient on to a residual that needs none', () => {
    const expected = run({ dtype: 'float32', fused: false, isFrozen: true });
    expect(expected[2]).toBeUndefined();
    expect(run({ dtype: 'float32', fused: true, isFrozen: true })).toEqual(expected);
  });
});
