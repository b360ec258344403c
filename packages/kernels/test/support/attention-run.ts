import {
  attentionForward,
  countElements,
  type Device,
  type DType,
  Tensor,
  type TensorOptions,
  tidy,
} from '../../src/index.js';
import { makeTensors, uniformStream } from '../op-cases/case-tensors.js';
import type { TensorSpec, Tensors } from '../op-cases/op-case.js';
import {
  type AttentionCase,
  listElements,
  listShapes,
  makeOptions,
  projectedSpecs,
  viewOperands,
  visibilitySpecs,
} from './attention-case.js';
import type { AttentionResults, AttentionValues } from './attention-oracle.js';
import { differentiateAttention } from './differentiate-attention.js';

/** Declares all inputs of a forward pass. */
export const inputSpecs = (one: AttentionCase): Record<string, TensorSpec> => ({
  ...projectedSpecs(one),
  ...visibilitySpecs(one),
});

/** Declares the results of a forward pass. */
export function resultSpecs(one: AttentionCase): Record<'output' | 'logSumExp', TensorSpec> {
  const { output, logSumExp } = listShapes(one);
  return {
    output: { shape: output, output: true, ...(one.isExact && { dtype: 'float32' }) },
    logSumExp: { shape: logSumExp, output: true, dtype: 'float32' },
  };
}

/** Runs the forward pass of a case on tensors that `inputSpecs` and `resultSpecs` declare. */
export function runForward(one: AttentionCase, tensors: Tensors): void {
  const { output, logSumExp } = tensors;
  tidy(() =>
    attentionForward({
      output: output!,
      logSumExp,
      ...viewOperands(one, tensors),
      ...makeOptions(one, tensors),
    }),
  );
}

/** Runs the backward pass on the results of the forward pass; `projectedSpecs` declares the gradients. */
export function runBackward(one: AttentionCase, tensors: Tensors): void {
  const { output, logSumExp, outputGradient } = tensors;
  tidy(() => {
    const gradients = viewOperands(one, tensors, 'Gradient');
    differentiateAttention({
      output: output!,
      logSumExp: logSumExp!,
      outputGradient: outputGradient!,
      ...viewOperands(one, tensors),
      ...makeOptions(one, tensors),
      queryGradient: gradients.query,
      keyGradient: gradients.key,
      valueGradient: gradients.value,
      accumulate: one.isExact ?? false,
    });
  });
}

/** Returns reproducible values in [-1, 1), in float32. */
export function attentionValues(one: AttentionCase, seed = 1): AttentionValues {
  const next = uniformStream(seed);
  const of = (shape: readonly number[]) =>
    Float64Array.from({ length: countElements(shape) }, () => Math.fround(next() * 2 - 1));
  const { query, key, value, output } = listShapes(one);
  return { query: of(query), key: of(key), value: of(value), outputGradient: of(output) };
}

export interface Run {
  readonly device?: Device;
  readonly dtype?: DType;
}

/** Makes a tensor of these values, from an array of its dtype where there is one: that takes less time. */
function makeTensor(values: Float64Array, options: Required<TensorOptions>): Tensor {
  if (options.dtype === 'float64') return Tensor.from(values, options);
  return Tensor.from(options.dtype === 'float32' ? new Float32Array(values) : [...values], options);
}

function readValues(tensor: Tensor): Float64Array {
  if (tensor.dtype === 'float32') return new Float64Array(tensor.read<'float32'>());
  return Float64Array.from(tensor.toArray());
}

const names = ['query', 'key', 'value'] as const;

/** Returns an operand, in its order, from the tensor that holds it. */
function readOperand(
  one: AttentionCase,
  name: (typeof names)[number],
  tensors: Tensors,
  suffix = '',
): Float64Array {
  const { memory = 'tensors' } = one;
  const all = readValues(tensors[(memory === 'projection' ? 'qkv' : name) + suffix]!);
  return memory === 'tensors' ? all : listElements(one, name).map((at) => all[at]!);
}

/** Returns the values of the tensors that hold the operands; 7 between the heads. */
function heldValues(one: AttentionCase, values: AttentionValues): Readonly<Record<string, Float64Array>> {
  const { memory = 'tensors' } = one;
  if (memory === 'tensors') return { ...values };
  const held = Object.fromEntries(
    Object.entries(projectedSpecs(one)).map(([name, { shape }]) => [
      name,
      new Float64Array(countElements(shape)).fill(7),
    ]),
  );
  for (const name of names) {
    const to = held[memory === 'projection' ? 'qkv' : name]!;
    listElements(one, name).forEach((at, index) => {
      to[at] = values[name][index]!;
    });
  }
  return held;
}

/**
 * Makes the tensors of one direction or, by default, both: results are NaN at first, gradients to
 * which the call adds zeros.
 */
function createTensors(
  one: AttentionCase,
  values: AttentionValues,
  { device = 'cpu', dtype = 'float32' }: Run,
  isForwardAlone = false,
): Tensors {
  const held = heldValues(one, values);
  const shapes = listShapes(one);
  const exact = dtype === 'float64' ? dtype : 'float32';
  const ofResults = one.isExact ? exact : dtype;
  const notNumbers = (shape: readonly number[], of: DType) =>
    makeTensor(new Float64Array(countElements(shape)).fill(Number.NaN), { shape, dtype: of, device });
  const operands = Object.entries(projectedSpecs(one)).map(([name, { shape }]) => [
    name,
    makeTensor(held[name]!, { shape, dtype, device }),
  ]);
  const forward: Tensors = {
    ...Object.fromEntries(operands),
    ...makeTensors(visibilitySpecs(one), { device, dtype, seed: 1 }),
    output: notNumbers(shapes.output, ofResults),
    logSumExp: notNumbers(shapes.logSumExp, exact),
  };
  if (isForwardAlone) return forward;
  const gradients = Object.entries(projectedSpecs(one, 'Gradient')).map(([name, { shape }]) => [
    name,
    one.isExact ? Tensor.zeros({ shape, dtype: ofResults, device }) : notNumbers(shape, ofResults),
  ]);
  const outputGradient = makeTensor(values.outputGradient, { shape: shapes.output, dtype, device });
  return { ...forward, ...Object.fromEntries(gradients), outputGradient };
}

/** Returns output and logSumExp. */
export function computeForward(
  one: AttentionCase,
  values: AttentionValues,
  run: Run = {},
): Pick<AttentionResults, 'output' | 'logSumExp'> {
  return tidy(() => {
    const tensors = createTensors(one, values, run, true);
    runForward(one, tensors);
    return { output: readValues(tensors.output!), logSumExp: readValues(tensors.logSumExp!) };
  });
}

/**
 * Returns the gradients of query, key and value with the results of a forward pass, added up `times` times if
 * they are exact.
 */
export function computeBackward(
  one: AttentionCase,
  values: AttentionValues,
  {
    output,
    logSumExp,
    times = 1,
    ...run
  }: Run & Pick<AttentionResults, 'output' | 'logSumExp'> & { readonly times?: number },
): Pick<AttentionResults, 'query' | 'key' | 'value'> {
  return tidy(() => {
    const made = createTensors(one, values, run);
    const tensors = {
      ...made,
      output: makeTensor(output, made.output!),
      logSumExp: makeTensor(logSumExp, made.logSumExp!),
    };
    for (let time = 0; time < times; time++) runBackward(one, tensors);
    const read = (name: (typeof names)[number]) => readOperand(one, name, tensors, 'Gradient');
    return { query: read('query'), key: read('key'), value: read('value') };
  });
}

/** Returns the inputs, rounded to the dtype, and the results of both directions. */
export function attend(
  one: AttentionCase,
  values: AttentionValues,
  run: Run = {},
): { readonly inputs: AttentionValues; readonly results: AttentionResults } {
  return tidy(() => {
    const tensors = createTensors(one, values, run);
    runForward(one, tensors);
    runBackward(one, tensors);
    const array = (name: string) => readValues(tensors[name]!);
    const read = (suffix: string) => ({
      query: readOperand(one, 'query', tensors, suffix),
      key: readOperand(one, 'key', tensors, suffix),
      value: readOperand(one, 'value', tensors, suffix),
    });
    return {
      inputs: { ...read(''), outputGradient: array('outputGradient') },
      results: { ...read('Gradient'), output: array('output'), logSumExp: array('logSumExp') },
    };
  });
}
