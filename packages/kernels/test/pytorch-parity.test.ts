import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  adamw,
  attentionBackward,
  attentionForward,
  attentionRowSums,
  attentionSinkBackward,
  attentionSinkForward,
  biasDropoutResidualForward,
  biasGeluBackward,
  biasGeluForward,
  biasSquaredReluBackward,
  biasSquaredReluForward,
  biasSwigluBackward,
  biasSwigluForward,
  crossEntropyBackward,
  crossEntropyStatistics,
  type DType,
  embeddingBackward,
  embeddingForward,
  type GeluKind,
  hostInformation,
  layerNormBackward,
  layerNormForward,
  matmul,
  numLiveTensors,
  type RotaryFrequenciesOptions,
  rmsNormBackward,
  rmsNormForward,
  rotaryEmbedding,
  rotaryTable,
  setInstructionSet,
  splitProjection,
  sumOfSquares,
  sumRows,
  Tensor,
  tanhBackward,
  tanhForward,
  tidy,
} from '../src/index.js';
import { setPoison } from '../src/internal/index.js';
import { differentiateAttention } from './support/differentiate-attention.js';
import { expertReplays } from './support/expert-replays.js';
import { readSafetensors } from './support/read-safetensors.js';

/** A case of fixtures/kernel-ops.json, made by tooling/fixtures/kernel_ops.py. */
interface FixtureCase {
  readonly name: string;
  readonly op: string;
  readonly dtype: 'float32' | 'bfloat16';
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

const directory = new URL('../fixtures/', import.meta.url);
const fixtureTensor = readSafetensors(new URL('kernel-ops.safetensors', directory));
const { cases } = JSON.parse(readFileSync(new URL('kernel-ops.json', directory), 'utf8')) as {
  cases: FixtureCase[];
};

type Inputs = Readonly<Record<string, Tensor>>;
type Replay = (inputs: Inputs, fixture: FixtureCase) => Record<string, Tensor>;

const like = (tensor: Tensor): Tensor => Tensor.empty(tensor);
const float32 = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype: 'float32' });
const zeros = (shape: readonly number[]): Tensor => Tensor.zeros({ shape, dtype: 'float32' });

const readSoftCap = ({ softCap }: FixtureCase['attributes']): number | undefined =>
  softCap as number | undefined;

const replays: Readonly<Record<string, Replay>> = {
  matmul: ({ left, right, bias, start }, { attributes, dtype }) => {
    const output = start ?? Tensor.empty({ shape: [7, 11], dtype });
    matmul({ output, left: left!, right: right!, bias, ...attributes });
    return { output };
  },
  linear: ({ x, w, dy }) => {
    const y = like(dy!);
    const dx = like(x!);
    const dw = zeros(w!.shape);
    matmul({ output: y, left: x!, right: w!, transposeRight: true });
    matmul({ output: dx, left: dy!, right: w! });
    matmul({ output: dw, left: dy!, right: x!, transposeLeft: true, accumulate: true });
    return { y, dx, dw };
  },
  bias_gelu: ({ x, bias, dy }, { attributes }) => {
    const kind = attributes.kind as GeluKind;
    const y = like(x!);
    const dx = like(x!);
    const dbias = float32(bias!.shape);
    biasGeluForward({ output: y, input: x!, bias, kind });
    biasGeluBackward({ inputGradient: dx, outputGradient: dy!, input: x!, bias, kind });
    sumRows({ output: dbias, input: dx });
    return { y, dx, dbias };
  },
  tanh: ({ x, dy }) => {
    const [y, dx] = [like(x!), like(x!)];
    tanhForward({ output: y, input: x! });
    tanhBackward({ inputGradient: dx, outputGradient: dy!, output: y });
    return { y, dx };
  },
  layer_norm: ({ x, weight, bias, dy, addend }, { attributes }) => {
    const rows = x!.size / x!.dim(-1);
    const y = like(x!);
    const dx = like(x!);
    const [mean, rstd] = [float32([rows]), float32([rows])];
    const [dweight, dbias] = [zeros(weight!.shape), zeros(bias!.shape)];
    const epsilon = attributes.epsilon as number;
    layerNormForward({ output: y, mean, rstd, input: x!, weight: weight!, bias: bias!, epsilon });
    layerNormBackward({
      inputGradient: dx,
      weightGradient: dweight,
      biasGradient: dbias,
      outputGradient: dy!,
      input: x!,
      mean,
      rstd,
      weight: weight!,
      addend,
    });
    return { y, dx, dweight, dbias };
  },
  rms_norm: ({ x, weight, dy, addend }, { attributes }) => {
    const [y, dx, dweight] = [like(x!), like(x!), zeros(weight!.shape)];
    const rstd = float32([x!.size / x!.dim(-1)]);
    const operands = { input: x!, rstd, weight: weight! };
    rmsNormForward({ ...operands, output: y, epsilon: attributes.epsilon as number });
    rmsNormBackward({
      ...operands,
      inputGradient: dx,
      weightGradient: dweight,
      outputGradient: dy!,
      addend,
    });
    return { y, dx, dweight };
  },
  head_rms_norm: ({ qkv, weight, dy }, { attributes }) => {
    const [y, dqkv, dweight] = [like(dy!), Tensor.zeros(qkv!), zeros(weight!.shape)];
    const rstd = float32([y.size / y.dim(-1)]);
    const operands = { input: splitProjection(qkv!).query, rstd, weight: weight! };
    rmsNormForward({ ...operands, output: y, epsilon: attributes.epsilon as number });
    const inputGradient = splitProjection(dqkv).query;
    rmsNormBackward({ ...operands, inputGradient, weightGradient: dweight, outputGradient: dy! });
    return { y, dqkv, dweight };
  },
  ...expertReplays,
  bias_swiglu: ({ x, bias, dy }) => {
    const [y, dx, dbias] = [like(dy!), like(x!), float32(bias!.shape)];
    biasSwigluForward({ output: y, input: x!, bias });
    biasSwigluBackward({ inputGradient: dx, outputGradient: dy!, input: x!, bias });
    sumRows({ output: dbias, input: dx });
    return { y, dx, dbias };
  },
  bias_squared_relu: ({ x, bias, dy }) => {
    const [y, dx, dbias] = [like(dy!), like(x!), float32(bias!.shape)];
    biasSquaredReluForward({ output: y, input: x!, bias });
    biasSquaredReluBackward({ inputGradient: dx, outputGradient: dy!, input: x!, bias });
    sumRows({ output: dbias, input: dx });
    return { y, dx, dbias };
  },
  rotary: ({ x, positions, dy }, { attributes }) => {
    const { rotarySize, base, scaling, interleaved, numPositions } = attributes as unknown as {
      rotarySize: number;
      base: number;
      scaling: RotaryFrequenciesOptions['scaling'] | null;
      interleaved: boolean;
      numPositions: number;
    };
    const table = rotaryTable({ numPositions, rotarySize, base, scaling: scaling ?? undefined });
    const [y, dx] = [like(x!), like(x!)];
    const operands = { positions: positions!, table, interleaved };
    rotaryEmbedding({ ...operands, output: y, input: x! });
    rotaryEmbedding({ ...operands, output: dx, input: dy!, inverse: true });
    return { y, dx };
  },
  embedding: ({ table, ids, dy }) => {
    const y = like(dy!);
    const dtable = zeros(table!.shape);
    embeddingForward({ output: y, ids: ids!, table: table! });
    embeddingBackward({ tableGradient: dtable, outputGradient: dy!, ids: ids! });
    return { y, dtable };
  },
  bias_dropout_residual: ({ x, bias, residual }) => {
    const y = like(x!);
    biasDropoutResidualForward({ output: y, input: x!, bias, residual });
    return { y };
  },
  attention: ({ qkv, query, key, value, dy, keyMask, keyStart }, { attributes }) => {
    const [sequence, batch, heads] = dy!.shape;
    const y = like(dy!);
    const dqkv = qkv && like(qkv);
    const operands = qkv ? splitProjection(qkv) : { query: query!, key: key!, value: value! };
    const gradients = dqkv
      ? splitProjection(dqkv)
      : { query: like(query!), key: like(key!), value: like(value!) };
    const options = {
      ...operands,
      logSumExp: float32([batch!, heads!, sequence!]),
      output: y,
      softCap: readSoftCap(attributes),
      visibility: {
        keyMask,
        keyStart,
        causal: attributes.causal === true,
        windowSize: (attributes.windowSize as number | null | undefined) ?? undefined,
      },
    };
    attentionForward(options);
    differentiateAttention({
      ...options,
      outputGradient: dy!,
      queryGradient: gradients.query,
      keyGradient: gradients.key,
      valueGradient: gradients.value,
    });
    if (dqkv) return { y, dqkv };
    return { y, dquery: gradients.query, dkey: gradients.key, dvalue: gradients.value };
  },
  attention_with_sinks: ({ query, key, value, sinks, dy }, { attributes }) => {
    const [sequence, batch, heads] = dy!.shape;
    const call = {
      query: query!,
      key: key!,
      value: value!,
      visibility: {
        causal: true,
        windowSize: (attributes.windowSize as number | null | undefined) ?? undefined,
      },
    };
    const logSumExp = float32([batch!, heads!, sequence!]);
    const y = like(dy!);
    attentionForward({ ...call, logSumExp, output: y });
    attentionSinkForward({ output: y, logSumExp, sinks });
    const rowSums = attentionRowSums({ output: y, outputGradient: dy! });
    const dsinks = Tensor.zeros({ shape: [heads!], dtype: 'float32', device: dy!.device });
    attentionSinkBackward({ sinksGradient: dsinks, rowSums, logSumExp, sinks: sinks! });
    const [dquery, dkey, dvalue] = [like(query!), like(key!), like(value!)];
    attentionBackward({
      ...call,
      logSumExp,
      rowSums,
      outputGradient: dy!,
      queryGradient: dquery,
      keyGradient: dkey,
      valueGradient: dvalue,
    });
    return { y, dquery, dkey, dvalue, dsinks };
  },
  cross_entropy: ({ logits, labels, weights }, { attributes }) => {
    const [rows, numColumns] = logits!.shape;
    const [rowMaximum, rowSum, labelLogit, losses] = [1, 2, 3, 4].map(() => float32([rows!]));
    const dlogits = like(logits!);
    const statistics = { rowMaximum: rowMaximum!, rowSum: rowSum!, labelLogit: labelLogit! };
    const softCap = readSoftCap(attributes);
    const inputs = { logits: logits!, labels: labels!, numColumns: numColumns!, softCap };
    crossEntropyStatistics({ ...statistics, ...inputs });
    crossEntropyBackward({
      ...statistics,
      ...inputs,
      logitGradient: dlogits,
      loss: losses!,
      weights: weights!,
    });
    return { losses: losses!, dlogits };
  },
  sum_rows: ({ x }) => {
    const y = float32([x!.dim(-1)]);
    sumRows({ output: y, input: x! });
    return { y };
  },
  sum_of_squares: ({ x }) => {
    const y = Tensor.empty({ shape: [1], dtype: 'float64' });
    sumOfSquares({ output: y, input: x! });
    return { y };
  },
  adamw: replayAdamw,
};

function replayAdamw(inputs: Inputs, { attributes }: FixtureCase): Record<string, Tensor> {
  const { rates, segments, beta1, beta2, epsilon, weightDecay } = attributes as {
    rates: number[];
    segments: number[];
    beta1: number;
    beta2: number;
    epsilon: number;
    weightDecay: number;
  };
  const parameter = inputs.parameter!;
  const [firstMoment, secondMoment] = [zeros(parameter.shape), zeros(parameter.shape)];
  const table = Tensor.from(segments, { shape: [segments.length / 2, 2], dtype: 'int64' });
  const results: Record<string, Tensor> = {};
  rates.forEach((rate, step) => {
    const corrections = [1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)];
    adamw({
      parameter,
      firstMoment,
      secondMoment,
      gradient: inputs[`gradient${step}`]!,
      segments: table,
      scalars: Tensor.from([rate, ...corrections, 1, 1], { shape: [5], dtype: 'float32' }),
      beta1,
      beta2,
      epsilon,
      weightDecay,
    });
    results[`parameter${step}`] = Tensor.from(parameter.read(), { shape: parameter.shape, dtype: 'float32' });
  });
  return results;
}

interface Bound {
  /** The bound as a fraction of the largest magnitude in the tensor. */
  readonly ofLargest: number;
  /** The bound as a fraction of the element. */
  readonly relative: number;
}

/**
 * float32: sums of up to 400 terms of the tensor's size, each rounded at 2^-24 = 6e-8
 * (sqrt(400) * 6e-8 = 1.2e-6), and exponentials to 2 ulp. bfloat16: PyTorch's result is rounded once from
 * float64, ours once from float32, so they differ where that float32 error crosses a rounding border: by one
 * unit in the last place, 2^-7 of the element at most.
 */
const bounds: Readonly<Record<FixtureCase['dtype'], Bound>> = {
  float32: { ofLargest: 2e-6, relative: 2e-6 },
  bfloat16: { ofLargest: 2e-6, relative: 2 ** -7 },
};

/**
 * Bounds of bfloat16 kernels that round intermediate values: 2^-9 for each operand; some operands enter a
 * sum.
 */
const roundsInside: Readonly<Record<string, Bound>> = {
  // probabilities and score gradients are bfloat16 operands of the second matmul, as in FlashAttention
  attention: { ofLargest: 2 ** -7, relative: 2 ** -7 },
  attention_with_sinks: { ofLargest: 2 ** -7, relative: 2 ** -7 },
  // dbias is summed from dx, which was rounded to bfloat16: 3 terms of half a unit each
  bias_gelu: { ofLargest: 2 ** -8, relative: 2 ** -7 },
  bias_swiglu: { ofLargest: 2 ** -8, relative: 2 ** -7 },
  bias_squared_relu: { ofLargest: 2 ** -8, relative: 2 ** -7 },
  // the same for up to 5 terms of dbias; the sum of another group may be smaller
  expert_activation: { ofLargest: 2 ** -7, relative: 2 ** -7 },
  // dx is computed from y, which was rounded to bfloat16: near 1, half a unit of y is as much of 1 - y^2
  tanh: { ofLargest: 2 ** -8, relative: 2 ** -7 },
};

function chooseBound({ op, dtype }: FixtureCase): Bound {
  return (dtype === 'bfloat16' ? roundsInside[op] : undefined) ?? bounds[dtype];
}

function expectNear(fixture: FixtureCase, name: string, actual: Tensor): void {
  const expected = fixtureTensor(`${fixture.name}.${name}`);
  expect(actual.dtype, `dtype of ${name}`).toBe<DType>(expected.dtype);
  const [left, right] = [actual.toArray(), expected.toArray()];
  expect(left.length).toBe(right.length);
  const largest = right.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const { ofLargest, relative } = chooseBound(fixture);
  // one expectation for all elements, since an expectation for each element would take most of the time
  const wrong = right.findIndex((value, index) => {
    const difference = Math.abs(left[index]! - value);
    return !(difference <= ofLargest * largest + relative * Math.abs(value)); // NaN is wrong, too
  });
  expect(wrong, `${name}[${wrong}]: ${left[wrong]}, PyTorch ${right[wrong]}`).toBe(-1);
}

beforeAll(() => setPoison(true));
afterAll(() => {
  setPoison(false);
  setInstructionSet(hostInformation().detectedInstructionSet);
  expect(numLiveTensors()).toBe(0);
});

describe.each(hostInformation().usableInstructionSets)('%s kernels give what PyTorch gives', (level) => {
  beforeAll(() => setInstructionSet(level));
  it.each(cases.map((fixture) => [`${fixture.name} ${fixture.dtype}`, fixture] as const))(
    '%s',
    (_, fixture) => {
      tidy(() => {
        const inputs = Object.fromEntries(
          fixture.inputs.map((name) => [name, fixtureTensor(`${fixture.name}.${name}`)]),
        );
        const outputs = replays[fixture.op]!(inputs, fixture);
        expect(Object.keys(outputs).sort()).toEqual([...fixture.outputs].sort());
        for (const [name, tensor] of Object.entries(outputs)) expectNear(fixture, name, tensor);
      });
    },
  );
});
