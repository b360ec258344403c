import { countElements, type Device, type DType, Tensor, type TypedArray } from '../../src/index.js';
import type { TensorSpec, Tensors } from './op-case.js';

/** Returns a generator of deterministic values in [0, 1) (mulberry32), so that a failing case fails again. */
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

/**
 * The most elements of a tensor whose values are kept for later cases. Larger tensors belong to benchmarks:
 * keeping their values would take memory for the rest of the run.
 */
const mostKept = 2 ** 20;

/**
 * Random numbers by kind and seed. Tensors with the same index in their cases begin with the same numbers.
 */
const streams = new Map<string, { readonly next: () => number; readonly numbers: number[] }>();

function randomNumbers(
  { values = 'normal', scale = 1 }: TensorSpec,
  { size, seed }: { size: number; seed: number },
): number[] {
  const begin = () => (values === 'uniform' ? uniformStream(seed) : normalStream(seed));
  if (size > mostKept) {
    const next = begin();
    return Array.from({ length: size }, () => next() * scale);
  }
  const key = `${String(values)} ${seed}`;
  const stream = streams.get(key) ?? { next: begin(), numbers: [] };
  streams.set(key, stream);
  while (stream.numbers.length < size) stream.numbers.push(stream.next());
  return Array.from({ length: size }, (_, index) => stream.numbers[index]! * scale);
}

/** Random numbers by dtype, kept for later tensors: rounding to 16 bits takes most of the time. */
const elements = new Map<string, TypedArray>();

interface Place {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly device: Device;
}

function randomTensor(spec: TensorSpec, seed: number, place: Place): Tensor {
  const size = countElements(place.shape);
  const key = `${String(spec.values)} ${spec.scale} ${seed} ${place.dtype}`;
  const known = elements.get(key);
  if (known !== undefined && known.length >= size) return Tensor.from(known.subarray(0, size), place);
  const tensor = Tensor.from(randomNumbers(spec, { size, seed }), place);
  if (size <= mostKept) elements.set(key, tensor.read());
  return tensor;
}

function filledTensor(spec: TensorSpec, seed: number, place: Place): Tensor {
  const { values } = spec;
  if (typeof values === 'function') {
    return Tensor.from(
      Array.from({ length: countElements(place.shape) }, (_, index) => values(index)),
      place,
    );
  }
  return Array.isArray(values) ? Tensor.from(values, place) : randomTensor(spec, seed, place);
}

/** Creates the tensors of a case on a device. The same seed gives the same values on every device. */
export function makeTensors(
  specs: Readonly<Record<string, TensorSpec>>,
  { device, dtype, seed }: { device: Device; dtype: DType; seed: number },
): Tensors {
  const tensors: Record<string, Tensor> = {};
  for (const [position, [name, spec]] of Object.entries(specs).entries()) {
    const options = { shape: spec.shape, dtype: spec.dtype ?? dtype, device };
    const untouched = spec.output === true && spec.accumulated !== true;
    tensors[name] = untouched ? Tensor.empty(options) : filledTensor(spec, seed * 1009 + position, options);
  }
  return tensors;
}

export function disposeAll(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}
