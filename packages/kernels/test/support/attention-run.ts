import { attentionForward, type Device, type DType, sizeOf, Tensor, tidy } from '../../src/index.js';
import { makeTensors, uniformStream } from '../op-cases/case-tensors.js';
import type { TensorSpec, Tensors } from '../op-cases/op-case.js';
import {
  type AttentionCase,
  elementsOf,
  operandsOf,
  optionsOf,
  projectedSpecs,
  shapesOf,
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
  const { output, logSumExp } = shapesOf(one);
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
      ...operandsOf(one, tensors),
      ...optionsOf(one, tensors),
    }),
  );
}

/** Runs the backward pass on the results of the forward pass; `projectedSpecs` declares the gradients. */
export function runBackward(one: AttentionCase, tensors: Tensors): void {
  const { output, logSumExp, outputGradient } = tensors;
  tidy(() => {
    const gradients = operandsOf(one, tensors, 'Gradient');
    differentiateAttention({
      output: output!,
      logSumExp: logSumExp!,
      outputGradient: outputGradient!,
      ...operandsOf(one, tensors),
      ...optionsOf(one, tensors),
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
    Float64Array.from({ length: sizeOf(shape) }, () => Math.fround(next() * 2 - 1));
  const { query, key, value, output } = shapesOf(one);
  return { query: of(query), key: of(key), value: of(value), outputGradient: of(output) };
}

export interface Run {
  readonly device?: Device;
  readonly dtype?: DType;
}

const names = ['query', 'key', 'value'] as const;

/** Returns an operand, in its order, from the tensor that holds it. */
function readOperand(
  one: AttentionCase,
  name: (typeof names)[number],
  tensors: Tensors,
  suffix = '',
): Float64Array {
  const all = tensors[(one.memory === 'projection' ? 'qkv' : name) + suffix]!.toArray();
  return Float64Array.from(elementsOf(one, name), (at) => all[at]!);
}

/** Makes the tensors of both directions; gradients start as zeros. */
function tensorsOf(
  one: AttentionCase,
  values: AttentionValues,
  { device = 'cpu', dtype = 'float32' }: Run,
): Tensors {
  const operands: Record<string, TensorSpec> = projectedSpecs(one);
  const held = Object.fromEntries(
    Object.entries(operands).map(([name, { shape }]) => [name, new Array<number>(sizeOf(shape)).fill(7)]),
  );
  for (const name of names) {
    const to = held[one.memory === 'projection' ? 'qkv' : name]!;
    elementsOf(one, name).forEach((at, index) => {
      to[at] = values[name][index]!;
    });
  }
  const filled = Object.entries(operands).map(([name, spec]) => [name, { ...spec, values: held[name]! }]);
  const exact = dtype === 'float64' ? { dtype } : {};
  const gradients = Object.entries(projectedSpecs(one, 'Gradient')).map(([name, spec]) => [
    name,
    { ...spec, output: false, values: () => 0, ...(one.isExact && exact) },
  ]);
  const { output, logSumExp } = resultSpecs(one);
  const specs: Record<string, TensorSpec> = {
    ...Object.fromEntries([...filled, ...gradients]),
    ...visibilitySpecs(one),
    outputGradient: { shape: output.shape, values: [...values.outputGradient] },
    output: { ...output, ...exact },
    logSumExp: { ...logSumExp, ...exact },
  };
  return makeTensors(specs, { device, dtype, seed: 1 });
}

/** Returns output and logSumExp. */
export function forwardOf(
  one: AttentionCase,
  values: AttentionValues,
  run: Run = {},
): Pick<AttentionResults, 'output' | 'logSumExp'> {
  return tidy(() => {
    const tensors = tensorsOf(one, values, run);
    runForward(one, tensors);
    const [output, logSumExp] = [tensors.output!, tensors.logSumExp!];
    return { output: Float64Array.from(output.toArray()), logSumExp: Float64Array.from(logSumExp.toArray()) };
  });
}

/**
 * Returns the gradients of query, key and value with the results of a forward pass, added up `times` times if
 * they are exact.
 */
export function backwardOf(
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
    const tensors = tensorsOf(one, values, run);
    for (const [tensor, from] of [
      [tensors.output!, output],
      [tensors.logSumExp!, logSumExp],
    ] as const) {
      tensor.write(Tensor.from([...from], tensor).read());
    }
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
    const tensors = tensorsOf(one, values, run);
    runForward(one, tensors);
    runBackward(one, tensors);
    const array = (name: string) => Float64Array.from(tensors[name]!.toArray());
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
