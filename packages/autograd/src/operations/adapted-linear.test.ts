import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  adaptedLinear,
  allocateParameters,
  type Dropout,
  initializeParameter,
  type LinearAdapter,
  linear,
  Parameter,
  Tape,
  type Variable,
} from '../index.js';

// G: groups. R: queries per group; a group also has one key and one value. D: head size. I: inputs. S:
// sequence length. B: micro-batch size.
const [G, R, D, I, S, B] = [2, 3, 2, 5, 3, 2];
const device = 'reference';
const dtype = 'float64';
const whole = (size: number) => ({ start: 0, end: size });

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(before));

const normal = { kind: 'normal', standardDeviation: 0.5 } as const;
const parameter = (name: string, globalShape: readonly number[]): Parameter =>
  new Parameter({ name, globalShape, initialization: normal });

/**
 * Makes a fused projection [G, R + 2, D, I] with adapters for its queries (rank 2) and its values (rank 3).
 */
function fusedProjection() {
  const weight = parameter('qkv', [G, R + 2, D, I]);
  const bias = parameter('bias', [G, R + 2, D]);
  const query: LinearAdapter = {
    down: parameter('query a', [2, I]),
    up: parameter('query b', [G, R, D, 2]),
    outputs: [whole(G), whole(R), whole(D)],
  };
  const value: LinearAdapter = {
    down: parameter('value a', [3, I]),
    up: parameter('value b', [G, 1, D, 3]),
    outputs: [whole(G), { start: R + 1, end: R + 2 }, whole(D)],
  };
  for (const frozen of [weight, bias]) frozen.freeze();
  return { weight, bias, query, value };
}

const factor = 0.75;

/**
 * Returns, for each row of the adapter's B, the index of the weight row to which it is added. The index
 * counts the rows of the flattened `[G, R + 2, D]`.
 */
function listRows({ up, outputs }: LinearAdapter): number[] {
  const [, parts] = outputs!;
  return Array.from({ length: up.size / up.shape.at(-1)! }, (_, row) => {
    const [group, part, feature] = [
      Math.floor(row / (up.shape[1]! * D)),
      Math.floor(row / D) % up.shape[1]!,
      row % D,
    ];
    return (group * (R + 2) + parts!.start + part) * D + feature;
  });
}

/** Computes the term that the adapter adds to the rows of the weight: `scale * B * A`. */
function addedBy({ down, up }: LinearAdapter): number[][] {
  const rank = down.shape[0]!;
  const [a, b] = [down.data.toArray(), up.data.toArray()];
  return Array.from({ length: up.size / rank }, (_, row) =>
    Array.from({ length: I }, (_, input) => {
      let sum = 0;
      for (let at = 0; at < rank; at++) sum += b[row * rank + at]! * a[at * I + input]!;
      return factor * sum;
    }),
  );
}

function inputOn(tape: Tape): Variable {
  const values = Array.from({ length: S * B * I }, (_, index) => Math.sin(index));
  return tape.input(Tensor.from(values, { shape: [S, B, I], dtype, device }), { requiresGradient: true });
}

function outputGradient(): Tensor {
  const outputs = G * (R + 2) * D;
  const values = Array.from({ length: S * B * outputs }, (_, index) => Math.cos(3 * index));
  return Tensor.from(values, { shape: [S, B, outputs], dtype, device });
}

interface Run {
  readonly split?: boolean;
  readonly dropout?: Omit<Dropout, 'samples'>;
}

/**
 * Runs the adapted layer forward and backward. Returns the output, the gradient of the input and the
 * gradients of the adapters.
 */
function runAdapted({ split = false, dropout }: Run = {}) {
  const { weight, bias, query, value } = fusedProjection();
  const trained = [query, value].flatMap(({ down, up }) => [down, up]);
  const parameters = [weight, bias, ...trained];
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  for (const each of parameters) initializeParameter(each, each.data, 3);
  const tape = new Tape();
  const input = inputOn(tape);
  const samples = tape.input(Tensor.from([4, 9], { shape: [B], dtype: 'int64', device }));
  const adapters = { adapters: [query, value], scale: factor, dropout: dropout && { ...dropout, samples } };
  const output = adaptedLinear(tape, { input, weight, bias, adapters });
  using gradient = outputGradient();
  if (split) {
    tape.backwardInput(output, gradient);
    for (const { mainGradient } of trained) expect(Math.max(...mainGradient.toArray())).toBe(0);
    tape.backwardWeight();
  } else {
    tape.backward(output, gradient);
  }
  using inputGradient = tape.takeGradient(input)!;
  const result = {
    output: output.tensor.toArray(),
    inputGradient: inputGradient.toArray(),
    gradients: trained.map(({ mainGradient }) => mainGradient.toArray()),
    added: [query, value].map((adapter) => ({ rows: listRows(adapter), values: addedBy(adapter) })),
    factors: [query, value].map(({ down, up }) => ({ a: down.data.toArray(), b: up.data.toArray() })),
    base: { weight: weight.data.toArray(), bias: bias.data.toArray() },
    hasWeightGradient: weight.hasMainGradient,
  };
  for (const variable of [input, samples, output]) variable.release();
  tape.dispose();
  storage.dispose();
  return result;
}

/**
 * Runs the layer after adding the adapters' terms to its weight. Returns the output and the gradients of
 * input and weight.
 */
function runMerged({ base, added }: Pick<ReturnType<typeof runAdapted>, 'base' | 'added'>) {
  const [weight, bias] = [parameter('merged', [G * (R + 2) * D, I]), parameter('bias', [G * (R + 2) * D])];
  const storage = allocateParameters([weight, bias], { device, dtype, mainGradients: true });
  const values = Float64Array.from(base.weight);
  for (const { rows, values: ofRows } of added) {
    rows.forEach((row, index) => {
      ofRows[index]!.forEach((value, input) => {
        values[row * I + input] = values[row * I + input]! + value;
      });
    });
  }
  weight.data.write(values);
  bias.data.write(Float64Array.from(base.bias));
  const tape = new Tape();
  const input = inputOn(tape);
  const output = linear(tape, { input, weight, bias });
  using gradient = outputGradient();
  tape.backward(output, gradient);
  using inputGradient = tape.takeGradient(input)!;
  const result = {
    output: output.tensor.toArray(),
    inputGradient: inputGradient.toArray(),
    weightGradient: weight.mainGradient.toArray(),
  };
  for (const variable of [input, output]) variable.release();
  tape.dispose();
  storage.dispose();
  return result;
}

// decimal places; rounding changes the sums of a few dozen float64 values by less than this
const precision = 12;
const expectClose = (actual: readonly number[], expected: readonly number[]): void => {
  expect(actual.length).toBe(expected.length);
  actual.forEach((value, index) => {
    expect(value).toBeCloseTo(expected[index]!, precision);
  });
};

const dot = (left: readonly number[], right: readonly number[]): number =>
  left.reduce((sum, value, index) => sum + value * right[index]!, 0);

describe('adaptedLinear', () => {
  it('computes with the merged weight, and trains the adapters alone', () => {
    const adapted = runAdapted();
    const merged = runMerged(adapted);
    expectClose(adapted.output, merged.output);
    expectClose(adapted.inputGradient, merged.inputGradient);
    expect(adapted.hasWeightGradient).toBe(false);
    // the expected gradients are `dA = scale * B^T * dW` and `dB = scale * dW * A^T`, for the rows of the
    // adapter
    adapted.added.forEach(({ rows }, which) => {
      const { a, b } = adapted.factors[which]!;
      const rank = a.length / I;
      const downGradient = new Array<number>(a.length).fill(0);
      const upGradient = new Array<number>(b.length).fill(0);
      rows.forEach((row, index) => {
        for (let at = 0; at < rank; at++) {
          for (let input = 0; input < I; input++) {
            const ofWeight = factor * merged.weightGradient[row * I + input]!;
            downGradient[at * I + input] = downGradient[at * I + input]! + b[index * rank + at]! * ofWeight;
            upGradient[index * rank + at] = upGradient[index * rank + at]! + ofWeight * a[at * I + input]!;
          }
        }
      });
      expectClose(adapted.gradients[2 * which]!, downGradient);
      expectClose(adapted.gradients[2 * which + 1]!, upGradient);
    });
  });

  it('has the same gradients in halves, with dropout', () => {
    const dropout = { probability: 0.5, key: [1, 2] } as const;
    const [once, halves, without] = [
      runAdapted({ dropout }),
      runAdapted({ dropout, split: true }),
      runAdapted(),
    ];
    expect(halves).toEqual(once);
    expect(once.output).not.toEqual(without.output);
    // the output is linear in the input, and the adapters' contribution is linear in A and in B
    const base = runMerged({ base: once.base, added: [] }).output;
    const gradient = outputGradient();
    const ofOutput = gradient.toArray();
    gradient.dispose();
    const added = dot(ofOutput, once.output) - dot(ofOutput, base);
    const inputs = Array.from({ length: S * B * I }, (_, index) => Math.sin(index));
    const constant = dot(
      ofOutput,
      Array.from(ofOutput, (_, at) => once.base.bias[at % once.base.bias.length]!),
    );
    expect(dot(inputs, once.inputGradient)).toBeCloseTo(dot(ofOutput, once.output) - constant, precision);
    for (const which of [0, 1] as const) {
      const factors = once.factors.map(({ a, b }) => (which === 0 ? a : b));
      const sum = factors.reduce(
        (total, values, at) => total + dot(values, once.gradients[2 * at + which]!),
        0,
      );
      expect(sum).toBeCloseTo(added, precision);
    }
  });

  it('refuses a layer that is trained', () => {
    const { query } = fusedProjection();
    const weight = parameter('trained', [G, R + 2, D, I]);
    const tape = new Tape();
    const input = inputOn(tape);
    expect(() => adaptedLinear(tape, { input, weight, adapters: { adapters: [query], scale: 1 } })).toThrow(
      expect.objectContaining({ code: 'MTL_FROZEN' }),
    );
    input.release();
  });

  it('drops features of the input for all adapters alike, and not for the layer', () => {
    // almost every feature is dropped, so that only the layer's own output remains
    const { output, base, gradients } = runAdapted({ dropout: { probability: 0.9999999, key: [1, 2] } });
    expectClose(output, runMerged({ base, added: [] }).output);
    for (const gradient of gradients) expect(gradient.every((value) => value === 0)).toBe(true);
  });
});
