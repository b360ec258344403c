import type { Slice } from '@mtl/layout';
import fc from 'fast-check';
import { type Dtype, dtypeBytes, type HostTensor, hostTensor, slicesOfFlatRange } from '../../src/index.js';

/** A tensor with its bytes and two ways to split it into boxes that cover it. */
export interface LayoutCase {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly saved: readonly (readonly Slice[])[];
  readonly loaded: readonly (readonly Slice[])[];
}

/** Splits one dimension of `size` into consecutive ranges at random places. */
function arbitrarySplits(size: number): fc.Arbitrary<Slice[]> {
  return fc
    .uniqueArray(fc.integer({ min: 1, max: Math.max(size - 1, 1) }), { maxLength: 3 })
    .map((splits) => {
      const inside = splits.filter((split) => split < size).sort((a, b) => a - b);
      const borders = [0, ...inside, size];
      return borders.slice(1).map((end, index) => ({ start: borders[index]!, end }));
    });
}

/** Returns all boxes of a grid of cuts. */
function listBoxes(cuts: readonly (readonly Slice[])[]): Slice[][] {
  return cuts.reduce<Slice[][]>(
    (boxes, ranges) => boxes.flatMap((box) => ranges.map((range) => [...box, range])),
    [[]],
  );
}

/** Generates a grid of boxes, or ranges of the flattened tensor, as a distributed optimizer cuts it. */
function arbitraryLayout(shape: readonly number[]): fc.Arbitrary<(readonly Slice[])[]> {
  const grid = fc.tuple(...shape.map(arbitrarySplits)).map(listBoxes);
  const whole = shape.map((size): Slice => ({ start: 0, end: size }));
  const volume = shape.reduce((product, size) => product * size, 1);
  const flat = arbitrarySplits(volume).map((ranges) =>
    ranges.flatMap(({ start, end }) =>
      slicesOfFlatRange({ slices: whole, start, end }).map(({ slices }) => slices),
    ),
  );
  return volume === 0 ? grid : fc.oneof({ weight: 3, arbitrary: grid }, { weight: 1, arbitrary: flat });
}

export const arbitraryLayoutCase: fc.Arbitrary<LayoutCase> = fc
  .record({
    dtype: fc.constantFrom<Dtype>('F32', 'BF16', 'I64', 'U8'),
    shape: fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 4 }),
  })
  .chain(({ dtype, shape }) =>
    fc.record({
      dtype: fc.constant(dtype),
      shape: fc.constant(shape),
      saved: arbitraryLayout(shape),
      loaded: arbitraryLayout(shape),
    }),
  );

/**
 * Returns byte `index` of the element at row-major position `element` of tensor number `tensor`: no two
 * places have the same byte.
 */
function computeByte(tensor: number, element: number, index: number): number {
  return (tensor * 41 + element * 7 + (element >> 5) * 13 + index * 101) % 251;
}

/** Returns the bytes that a box of a tensor should hold, computed element by element. */
export function bytesOfBox(options: {
  readonly tensor: number;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly slices: readonly Slice[];
}): Uint8Array {
  const { tensor, dtype, shape, slices } = options;
  const width = dtypeBytes[dtype];
  const bytes: number[] = [];
  const visit = (dim: number, element: number): void => {
    if (dim === shape.length) {
      for (let index = 0; index < width; index++) bytes.push(computeByte(tensor, element, index));
      return;
    }
    for (let at = slices[dim]!.start; at < slices[dim]!.end; at++) visit(dim + 1, element * shape[dim]! + at);
  };
  visit(0, 0);
  return Uint8Array.from(bytes);
}

/** Returns a logical tensor over a box, filled with the expected bytes or with zeros. */
export function boxTensor(options: {
  readonly name: string;
  readonly tensor: number;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly slices: readonly Slice[];
  readonly filled: boolean;
}): HostTensor {
  const { name, dtype, shape, slices, filled } = options;
  const right = bytesOfBox(options);
  const memory = filled ? right : new Uint8Array(right.length);
  return hostTensor({ name, dtype, globalShape: shape, slices, memory });
}
