import { type Device, type DType, type GeluKind, numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  biasDropoutResidual,
  type Collective,
  gelu,
  initializeParameter,
  linear,
  linearGelu,
  Parameter,
  Tape,
  type TapeOptions,
  type Variable,
} from '../index.js';

const [sequence, batch, hidden, feedForward] = [3, 2, 8, 24];
const normal = { kind: 'normal', standardDeviation: 0.5 } as const;

/**
 * Returns a view of the tensor. A layer with this collective returns the gradient of the layer's own input,
 * and its matmul does not apply GELU's derivative.
 */
const same: Collective = (tensor) => {
  const view = tensor.view({ shape: tensor.shape });
  return { wait: () => view };
};

interface Network {
  readonly device: Device;
  readonly dtype: DType;
  readonly kind: GeluKind;
  readonly fused: boolean;
  /** True if a second operation also reads GELU's output. */
  readonly twice?: boolean;
  readonly split?: boolean;
  readonly tape?: TapeOptions;
}

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

/** Runs `down(gelu(up(x)))` and returns its output and all gradients. */
function run({ device, dtype, kind, fused, twice = false, split = false, ...rest }: Network): number[][] {
  const make = (name: string, globalShape: number[]): Parameter =>
    new Parameter({ name, globalShape, initialization: normal });
  const up = { weight: make('up', [feedForward, hidden]), bias: make('up bias', [feedForward]) };
  const down = { weight: make('down', [hidden, feedForward]), bias: make('down bias', [hidden]) };
  const parameters = [up.weight, up.bias, down.weight, down.bias];
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  for (const parameter of parameters) {
    using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32' });
    initializeParameter(parameter, values, 7);
    using converted = Tensor.from(values.toArray(), { shape: [parameter.size], dtype });
    parameter.data.write(converted.read());
    parameter.mainGradient.zero();
  }
  const makeTensor = (columns: number): Tensor =>
    Tensor.from(
      Array.from({ length: sequence * batch * columns }, (_, index) => Math.sin(index + columns)),
      { shape: [sequence, batch, columns], dtype, device },
    );
  const tape = new Tape(rest.tape);
  const input = tape.input(makeTensor(hidden), { requiresGradient: true });
  const outputs = tape.scope((): Variable[] => {
    const activated = fused
      ? linearGelu(tape, { input, ...up, kind })
      : gelu(tape, { input: linear(tape, { input, ...up }), kind });
    const collectives = fused ? {} : { reduceInputGradient: same };
    const output = linear(tape, { input: activated, ...down, collectives });
    if (!twice) return [output];
    // a second path leads through the same weights to GELU's output, so its gradient has two summands
    const residual = biasDropoutResidual(tape, { input: activated, bias: up.bias });
    const other = linear(tape, { input: residual, weight: down.weight });
    return [biasDropoutResidual(tape, { input: output, residual: other })];
  });
  using outputGradient = makeTensor(hidden);
  if (split) {
    tape.backwardInput(outputs, outputGradient);
    expect(parameters.every(({ mainGradient }) => mainGradient.toArray().every((value) => value === 0))).toBe(
      true,
    );
    tape.backwardWeight();
  } else {
    tape.backward(outputs, outputGradient);
  }
  const inputGradient = tape.takeGradient(input)!;
  const results = [...outputs.map(({ tensor }) => tensor), inputGradient].map((tensor) => tensor.toArray());
  results.push(...parameters.map(({ mainGradient }) => mainGradient.toArray()));
  inputGradient.dispose();
  for (const variable of [...outputs, input]) variable.release();
  tape.dispose();
  storage.dispose();
  return results;
}

const kinds: readonly GeluKind[] = ['tanh', 'erf'];
const dtypes: readonly DType[] = ['float32', 'bfloat16'];
const cases = kinds.flatMap((kind) => dtypes.map((dtype) => ({ kind, dtype, device: 'cpu' as const })));

describe('linearGelu and the layer behind it', () => {
  it.each(cases)('give the bits of layer, GELU, layer: $kind $dtype', (network) => {
    const expected = run({ ...network, fused: false });
    expect(expected.flat().some((value) => value !== 0)).toBe(true);
    expect(run({ ...network, fused: true })).toEqual(expected);
    expect(run({ ...network, fused: true, split: true })).toEqual(expected);
    expect(run({ ...network, fused: true, tape: { rematerialize: false } })).toEqual(expected);
  });

  it('adds both gradients at GELU’s input where another operation reads the activations', () => {
    const network = { kind: 'tanh', dtype: 'float64', device: 'reference', twice: true } as const;
    const [expected, fused] = [
      run({ ...network, fused: false }).flat(),
      run({ ...network, fused: true }).flat(),
    ];
    // the gradient is GELU's derivative times a sum, whereas the expected value is a sum of matmuls; the two
    // differ only by float64 rounding
    for (const [index, value] of fused.entries())
      expect(Math.abs(value - expected[index]!)).toBeLessThan(1e-13);
  });
});
