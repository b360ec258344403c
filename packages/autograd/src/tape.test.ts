import { add, numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  biasDropoutResidual,
  gelu,
  initializeParameter,
  layerNorm,
  linear,
  linearCrossEntropy,
  Parameter,
  recompute,
  siteKey,
  Tape,
  type TapeOptions,
  Variable,
} from './index.js';

const [sequence, batch, hidden, vocabulary] = [3, 2, 8, 11];
const device = 'reference';
const dtype = 'float64';
const normal = { kind: 'normal', standardDeviation: 0.5 } as const;

interface Model {
  weight: Parameter;
  bias: Parameter;
  gain: Parameter;
  shift: Parameter;
  head: Parameter;
  all: Parameter[];
}

let model: Model;
let dispose: () => void;
let before: number;

beforeEach(() => {
  before = numLiveTensors();
  const make = (name: string, globalShape: number[]): Parameter =>
    new Parameter({ name, globalShape, initialization: normal });
  const parts = {
    weight: make('weight', [hidden, hidden]),
    bias: make('bias', [hidden]),
    gain: make('gain', [hidden]),
    shift: make('shift', [hidden]),
    head: make('head', [vocabulary, hidden]),
  };
  model = { ...parts, all: Object.values(parts) };
  const storage = allocateParameters(model.all, { device, dtype, mainGradients: true });
  for (const parameter of model.all) initializeParameter(parameter, parameter.data, 3);
  dispose = () => storage.dispose();
});
afterEach(() => {
  dispose();
  expect(numLiveTensors()).toBe(before);
});

function constant(
  values: readonly number[],
  shape: readonly number[],
  itsDtype: 'float64' | 'int32' | 'float32' | 'int64',
) {
  return new Variable(Tensor.from(values, { shape, dtype: itsDtype, device }), { requiresGradient: false });
}

/** Computes the loss of a tied head: the mean over all tokens, multiplied by `weight`. */
function headLoss(
  tape: Tape,
  input: Variable,
  { weight = 1, chunkBytes }: { readonly weight?: number; readonly chunkBytes?: number | undefined } = {},
): Variable {
  const tokens = sequence * batch;
  const labels = constant(
    Array.from({ length: tokens }, (_, index) => (index * 5) % vocabulary),
    [sequence, batch],
    'int32',
  );
  const weights = constant(new Array<number>(tokens).fill(weight / tokens), [sequence, batch], 'float32');
  const loss = linearCrossEntropy(tape, {
    input,
    weight: model.head,
    vocabularySize: vocabulary,
    labels,
    weights,
    ...(chunkBytes === undefined ? {} : { chunkBytes }),
  });
  labels.release();
  weights.release();
  return loss;
}

interface LossOptions {
  readonly chunkBytes?: number;
  readonly recomputed?: boolean;
  /**
   * The weight of a loss that every layer computes from its normalized input. Default: layers have no loss.
   */
  readonly layerLoss?: number;
}

/**
 * Applies `x + gelu(linear(norm(x)))` twice with the same parameters, then computes the loss of a tied head.
 */
function buildLoss(tape: Tape, input: Variable, options: LossOptions = {}): Variable {
  const { chunkBytes, recomputed, layerLoss } = options;
  const layer = (inner: Tape, x: Variable): Variable =>
    inner.scope(() => {
      const normalized = layerNorm(inner, { input: x, weight: model.gain, bias: model.shift, epsilon: 1e-5 });
      if (layerLoss !== undefined) inner.addLoss(headLoss(inner, normalized, { weight: layerLoss }));
      const widened = linear(inner, { input: normalized, weight: model.weight, bias: model.bias });
      return biasDropoutResidual(inner, { input: gelu(inner, { input: widened, kind: 'erf' }), residual: x });
    });
  const apply = (x: Variable): Variable => (recomputed ? recompute(tape, x, layer) : layer(tape, x));
  return tape.scope(() => headLoss(tape, apply(apply(input)), { chunkBytes }));
}

/**
 * Computes `2 * x` and `3 * x` in a single operation, and passes a description of every backward call to
 * `onCall`.
 */
function doubledAndTripled(tape: Tape, input: Variable, onCall: (call: string) => void): Variable[] {
  const { shape } = input.tensor;
  const addTensors = (left: Tensor, right: Tensor): Tensor => {
    const output = Tensor.empty({ shape, dtype, device });
    add({ output, left, right });
    return output;
  };
  const doubled = addTensors(input.tensor, input.tensor);
  const tripled = addTensors(doubled, input.tensor);
  const outputs = [doubled, tripled].map((tensor) => tape.result(tensor, { requiresGradient: true }));
  tape.record(outputs, () => ({
    name: 'doubled and tripled',
    inputs: [input],
    parameters: [],
    hasWeightPart: true,
    saved: [],
    backward: ({ parts, outputGradients }) => {
      const part = parts.input && parts.weight ? 'both' : parts.input ? 'input' : 'weight';
      const which = outputGradients.map((gradient) => (gradient === undefined ? 'none' : 'gradient'));
      onCall(`${part} of ${which.join(' and ')}`);
      if (!parts.input) return [];
      const total = Tensor.zeros({ shape, dtype, device });
      outputGradients.forEach((gradient, index) => {
        const times = gradient === undefined ? 0 : index + 2;
        for (let time = 0; time < times; time++) add({ output: total, left: total, right: gradient! });
      });
      return [total];
    },
  }));
  return outputs;
}

interface Result {
  losses: number[];
  input: number[];
  gradients: number[][];
}

function run(
  tapeOptions: TapeOptions = {},
  options: Parameters<typeof buildLoss>[2] & { split?: boolean; written?: readonly Parameter[] } = {},
): Result {
  for (const parameter of model.all) parameter.mainGradient.zero();
  for (const parameter of options.written ?? []) {
    parameter.mainGradient.write(new Float64Array(parameter.size).fill(Number.NaN));
    parameter.markGradientClear();
  }
  const tape = new Tape(tapeOptions);
  const values = Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index));
  const tensor = Tensor.from(values, { shape: [sequence, batch, hidden], dtype, device });
  const input = tape.input(tensor, { requiresGradient: true });
  const loss = buildLoss(tape, input, options);
  if (options.split) {
    tape.backwardInput(loss);
    expect(model.all.every(({ mainGradient }) => mainGradient.toArray().every((value) => value === 0))).toBe(
      true,
    );
    tape.backwardWeight();
  } else {
    tape.backward(loss);
  }
  const inputGradient = tape.takeGradient(input)!;
  const result = {
    losses: loss.tensor.toArray(),
    input: inputGradient.toArray(),
    gradients: model.all.map(({ mainGradient }) => mainGradient.toArray()),
  };
  inputGradient.dispose();
  loss.release();
  input.release();
  tape.dispose();
  return result;
}

describe('Tape', () => {
  it('keeping, rematerializing, splitting and recomputing all give the same bits', () => {
    const expected = run({ rematerialize: false });
    expect(run({ rematerialize: true })).toEqual(expected);
    expect(run({}, { split: true })).toEqual(expected);
    expect(run({}, { recomputed: true })).toEqual(expected);
    expect(run({}, { recomputed: true, split: true })).toEqual(expected);
  });

  it('starts backward at losses on the way too, in either half and in recomputation', () => {
    const [without, once, twice] = [{}, { layerLoss: 0.5 }, { layerLoss: 1 }].map((options) =>
      run({}, options),
    );
    expect(once!.losses).toEqual(without!.losses);
    // the gradients of all losses add up: the contribution of the layers' losses is proportional to their
    // weight
    for (const [index, gradient] of [without!.input, ...without!.gradients].entries()) {
      const [ofOnce, ofTwice] = [once!, twice!].map(({ input, gradients }) =>
        [input, ...gradients][index]!.map((value, at) => value - gradient[at]!),
      );
      // only the layer's own weight and bias come after the loss in the forward pass
      const isBelow = index !== 1 && index !== 2;
      if (isBelow) expect(Math.hypot(...ofOnce!)).toBeGreaterThan(1e-3);
      // float64, with weights of losses in float32
      ofOnce!.forEach((value, at) => void expect(Math.abs(ofTwice![at]! - 2 * value)).toBeLessThan(1e-7));
    }
    for (const options of [{ split: true }, { recomputed: true }, { recomputed: true, split: true }])
      expect(run({}, { layerLoss: 0.5, ...options })).toEqual(once);
  });

  it('chunks of logits change nothing but the order of sums', () => {
    const whole = run();
    const chunked = run({}, { chunkBytes: vocabulary * 8 * 2 });
    expect(chunked.losses).toEqual(whole.losses);
    chunked.gradients.forEach((gradient, index) => {
      gradient.forEach((value, at) => {
        // in float64, only the order in which a handful of terms are summed differs
        expect(Math.abs(value - whole.gradients[index]![at]!)).toBeLessThan(1e-14);
      });
    });
  });

  it('writes the first gradients of a weight that is marked clear, and adds the others', () => {
    for (const options of [{}, { chunkBytes: vocabulary * 8 * 2 }, { layerLoss: 0.5 }]) {
      const expected = run({}, options);
      // the main gradients of `written` begin as NaN, which any addition would keep; each weight is used
      // twice, and the head in chunks
      expect(run({}, { ...options, written: [model.weight, model.head] })).toEqual(expected);
    }
    const { weight } = model;
    weight.markGradientClear();
    expect(weight.takeMainGradient().accumulate).toBe(false);
    expect(weight.takeMainGradient().accumulate).toBe(true);
    weight.markGradientClear();
    // the caller may add to the tensor
    expect(weight.mainGradient.size).toBe(weight.size);
    expect(weight.takeMainGradient().accumulate).toBe(true);
  });

  it('says that a gradient is ready once, after the last of its uses', () => {
    const ready: string[] = [];
    const seen: number[] = [];
    for (const parameter of model.all) {
      parameter.onGradientReady(({ name, mainGradient }) => {
        ready.push(name);
        if (name === 'weight') seen.push(...mainGradient.toArray());
      });
    }
    const { gradients } = run();
    expect([...ready].sort()).toEqual(['bias', 'gain', 'head', 'shift', 'weight']);
    // the head is last in the forward pass, so its gradient is ready first; the layer's parameters are ready
    // only when backward has reached their first use
    expect(ready[0]).toBe('head');
    expect(seen).toEqual(gradients[0]);
    ready.length = 0;
    run({}, { split: true });
    expect(ready.length).toBe(5);
  });

  it('adds to main gradients: two backward passes are twice one', () => {
    const once = run();
    const tape = new Tape();
    const tensor = Tensor.from(
      Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index)),
      { shape: [sequence, batch, hidden], dtype, device },
    );
    const input = tape.input(tensor);
    const loss = buildLoss(tape, input);
    tape.backward(loss);
    loss.release();
    input.release();
    tape.dispose();
    model.head.mainGradient.toArray().forEach((value, index) => {
      expect(Math.abs(value - 2 * once.gradients[4]![index]!)).toBeLessThan(1e-14);
    });
  });

  it.each([
    { uses: [true, true], split: false },
    { uses: [true, true], split: true },
    { uses: [false, true], split: false },
    { uses: [true, false], split: true },
  ])('gives an operation with two outputs the gradients of both: $uses, halves $split', ({ uses, split }) => {
    const values = Array.from({ length: sequence * batch * hidden }, (_, index) => Math.sin(index));
    const shape = [sequence, batch, hidden];
    /** Returns the gradient of the loss at `factor` times the values. */
    const gradientAt = (factor: number): number[] => {
      const tape = new Tape();
      const scaled = values.map((value) => factor * value);
      const input = tape.input(Tensor.from(scaled, { shape, dtype, device }), { requiresGradient: true });
      const loss = headLoss(tape, input);
      tape.backward(loss);
      using gradient = tape.takeGradient(input)!;
      for (const variable of [loss, input]) variable.release();
      tape.dispose();
      return gradient.toArray();
    };
    const tape = new Tape();
    const input = tape.input(Tensor.from(values, { shape, dtype, device }), { requiresGradient: true });
    const calls: string[] = [];
    const pair = doubledAndTripled(tape, input, (call) => calls.push(call));
    const [first, second] = pair.map((variable, index) => (uses[index] ? variable : undefined));
    const sum =
      first !== undefined && second !== undefined
        ? biasDropoutResidual(tape, { input: first, residual: second })
        : (first ?? second)!;
    const loss = headLoss(tape, sum);
    if (split) {
      tape.backwardInput(loss);
      tape.backwardWeight();
    } else {
      tape.backward(loss);
    }
    const which = uses.map((isUsed) => (isUsed ? 'gradient' : 'none')).join(' and ');
    expect(calls).toEqual(split ? [`input of ${which}`, `weight of ${which}`] : [`both of ${which}`]);
    using gradient = tape.takeGradient(input)!;
    const factor = (uses[0] ? 2 : 0) + (uses[1] ? 3 : 0);
    gradientAt(factor).forEach((expected, index) => {
      expect(gradient.toArray()[index]).toBeCloseTo(factor * expected, 12);
    });
    for (const variable of new Set([...pair, sum, loss, input])) variable.release();
    tape.dispose();
  });

  it('refuses backward when it does not record, and keeps nothing', () => {
    const tape = new Tape({ recording: false });
    const input = tape.input(Tensor.zeros({ shape: [sequence, batch, hidden], dtype, device }));
    const loss = buildLoss(tape, input);
    expect(loss.tensor.toArray().every(Number.isFinite)).toBe(true);
    expect(() => tape.backward(loss)).toThrow(/does not record/);
    loss.release();
    input.release();
  });

  it('refuses backward a second time, and of what is no variable', () => {
    const tape = new Tape();
    const input = tape.input(Tensor.zeros({ shape: [sequence, batch, hidden], dtype, device }));
    const loss = buildLoss(tape, input);
    expect(() => tape.backward(undefined as unknown as Variable)).toThrow(/no variable of a tape/);
    expect(() => tape.backward(loss.tensor as unknown as Variable)).toThrow(/no variable of a tape/);
    tape.backward(loss);
    expect(() => tape.backward(loss)).toThrow(expect.objectContaining({ code: 'MTL_TAPE' }));
    loss.release();
    input.release();
    tape.dispose();
  });

  it('refuses a vocabulary of more entries than its weight has rows', () => {
    const tape = new Tape();
    const [input, labels, weights] = [
      [1, 1, hidden],
      [1, 1],
      [1, 1],
    ].map((shape, i) => tape.input(Tensor.zeros({ shape, dtype: i === 1 ? 'int32' : dtype, device }))) as [
      Variable,
      Variable,
      Variable,
    ];
    const options = { input, labels, weights, weight: model.head, vocabularySize: vocabulary + 1 };
    expect(() => linearCrossEntropy(tape, options)).toThrow(/vocabularySize 12 over head of 11 rows/);
    for (const variable of [input, labels, weights]) variable.release();
  });

  it('frees everything of a tape that is given up', () => {
    const tape = new Tape();
    const input = tape.input(Tensor.zeros({ shape: [sequence, batch, hidden], dtype, device }));
    const loss = buildLoss(tape, input);
    loss.release();
    input.release();
    tape.dispose(); // afterEach counts
  });

  it('passes gradients through dropout by the same mask', () => {
    const tape = new Tape();
    const shape = [4, 1, 64];
    const input = tape.input(Tensor.from(new Array<number>(256).fill(1), { shape, dtype, device }), {
      requiresGradient: true,
    });
    const samples = constant([9], [1], 'int64');
    const dropout = { probability: 0.25, key: siteKey(7, 'site'), samples };
    const output = biasDropoutResidual(tape, { input, dropout });
    const kept = output.tensor.toArray();
    const ones = Tensor.from(new Array<number>(256).fill(1), { shape, dtype, device });
    tape.backward(output, ones);
    const gradient = tape.takeGradient(input)!;
    expect(gradient.toArray()).toEqual(kept);
    expect(new Set(kept)).toEqual(new Set([0, 4 / 3]));
    for (const one of [gradient, ones]) one.dispose();
    for (const variable of [input, samples, output]) variable.release();
    tape.dispose();
  });
});
