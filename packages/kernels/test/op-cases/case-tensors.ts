import { type Device, type DType, Tensor, type TypedArray } from '../../src/index.js';
import type { TensorSpec, Tensors } from './op-case.js';

/** Deterministic values in [0, 1) (mulberry32), so that a failing case fails again. */
export function uniformStream(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function normalStream(seed: number): () => number {
  const uniform = uniformStream(seed);
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

function valuesOf(spec: TensorSpec, size: number, seed: number): number[] {
  const { values = 'normal', scale = 1 } = spec;
  if (Array.isArray(values)) return [...values];
  if (typeof values === 'function') return Array.from({ length: size }, (_, index) => values(index));
  const next = values === 'uniform' ? uniformStream(seed) : normalStream(seed);
  return Array.from({ length: size }, () => next() * scale);
}

/** The values of the case before: it is run on several devices and in several dtypes, one after the other. */
let last: {
  readonly specs: Readonly<Record<string, TensorSpec>>;
  readonly seed: number;
  readonly values: Map<string, readonly number[]>;
  /** The same in a dtype: what takes most of the time is to round them to 16 bits. */
  readonly elements: Map<string, TypedArray>;
} = { specs: {}, seed: 0, values: new Map(), elements: new Map() };

function knownValues(
  { specs, name, size }: { specs: Readonly<Record<string, TensorSpec>>; name: string; size: number },
  seed: number,
): readonly number[] {
  const position = Object.keys(specs).indexOf(name);
  const values = last.values.get(name) ?? valuesOf(specs[name]!, size, seed * 1009 + position);
  last.values.set(name, values);
  return values;
}

/** A tensor of the values of a spec, which are converted to its dtype once. */
function filledTensor(
  { specs, name, seed }: { specs: Readonly<Record<string, TensorSpec>>; name: string; seed: number },
  options: { shape: readonly number[]; dtype: DType; device: Device },
): Tensor {
  if (last.specs !== specs || last.seed !== seed) {
    last = { specs, seed, values: new Map(), elements: new Map() };
  }
  const key = `${name} ${options.dtype}`;
  const elements = last.elements.get(key);
  if (elements !== undefined) return Tensor.from(elements, options);
  const size = options.shape.reduce((product, dim) => product * dim, 1);
  const tensor = Tensor.from(knownValues({ specs, name, size }, seed), options);
  last.elements.set(key, tensor.read());
  return tensor;
}

/** The tensors of a case on a device. The same seed gives the same values on every device. */
export function makeTensors(
  specs: Readonly<Record<string, TensorSpec>>,
  { device, dtype, seed }: { device: Device; dtype: DType; seed: number },
): Tensors {
  const tensors: Record<string, Tensor> = {};
  for (const [name, spec] of Object.entries(specs)) {
    const options = { shape: spec.shape, dtype: spec.dtype ?? dtype, device };
    const untouched = spec.output === true && spec.accumulated !== true;
    tensors[name] = untouched ? Tensor.empty(options) : filledTensor({ specs, name, seed }, options);
  }
  return tensors;
}

export function disposeAll(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}
