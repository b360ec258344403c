import { cast, joinRemainder, scale, splitRemainder, type Tensor } from '@mtl/kernels';

/** The dtypes in which an optimizer state can be stored in memory. */
export type StateDtype = 'float32' | 'bfloat16' | 'float16';

/**
 * Returns true if values of the given dtype need a scale, because the dtype's range is too small for them.
 */
export const hasScales = (dtype: StateDtype): boolean => dtype === 'float16';

/**
 * Consecutive float32 values, either optimizer states or master values, in the form in which memory stores
 * them.
 */
export interface KeptValues {
  /** Returns a view of all values, [N] float32; undefined if memory stores them in a different form. */
  view(): Tensor | undefined;
  /** Copies the values from index `start` on to `output`, [M] float32. */
  read(start: number, output: Tensor): void;
  /** Writes `input`, [M] float32, to the values from index `start` on, rounded to the stored form. */
  write(start: number, input: Tensor): void;
}

/** A range of a flat buffer: `size` elements, from element `start` on. */
interface FlatValues {
  readonly buffer: Tensor;
  readonly start: number;
  readonly size: number;
}

const viewValues = ({ buffer, start, size }: FlatValues): Tensor =>
  buffer.view({ offset: start, shape: [size] });

/**
 * Returns the part of the given values that corresponds to a tensor of the given size, from index `start` on.
 */
const partFor = ({ buffer, start: first }: FlatValues, start: number, { size }: Tensor): Tensor =>
  viewValues({ buffer, start: first + start, size });

/** Values in a floating dtype. */
export const plainValues = (kept: FlatValues): KeptValues => ({
  view: () => (kept.buffer.dtype === 'float32' ? viewValues(kept) : undefined),
  read: (start, output) => {
    using input = partFor(kept, start, output);
    cast({ output, input });
  },
  write: (start, input) => {
    using output = partFor(kept, start, input);
    cast({ output, input });
  },
});

/**
 * Returns values that are stored in float16 with a float32 scale, which is element `index` of `scales`.
 * Writing values may raise the scale. `precisionAwareAdamw` chooses scales in the same way.
 */
export function scaledValues(
  kept: FlatValues,
  { scales, index }: { readonly scales: Tensor; readonly index: number },
): KeptValues {
  const readScale = (): number => {
    using own = scales.view({ offset: index, shape: [1] });
    return own.item();
  };
  const raiseScale = (needed: number): number => {
    const factor = readScale();
    if (factor >= needed) return factor;
    using own = scales.view({ offset: index, shape: [1] });
    using all = viewValues(kept);
    if (factor > 0) scale({ output: all, input: all, factor: factor / needed });
    own.write(Float32Array.of(needed));
    return needed;
  };
  return {
    view: () => undefined,
    read: (start, output) => {
      using input = partFor(kept, start, output);
      scale({ output, input, factor: readScale() });
    },
    write: (start, input) => {
      const factor = raiseScale(chooseScale(findLargest(input.read<'float32'>())));
      using output = partFor(kept, start, input);
      scale({ output, input, factor: factor === 0 ? 0 : 1 / factor });
    },
  };
}

/**
 * Returns values that are stored as bfloat16 together with their lower 16 bits (see `splitRemainder`). The
 * lower bits begin at element `remainderStart` of the buffer `remainders`.
 */
export function splitValues(
  kept: FlatValues,
  { remainders, remainderStart }: { readonly remainders: Tensor; readonly remainderStart: number },
): KeptValues {
  const bytesFor = (start: number, { size }: Tensor): Tensor =>
    remainders.view({ offset: 2 * (remainderStart + start), shape: [2 * size] });
  return {
    view: () => undefined,
    read: (start, output) => {
      using rounded = partFor(kept, start, output);
      using remainder = bytesFor(start, output);
      joinRemainder({ output, rounded, remainder });
    },
    write: (start, input) => {
      using rounded = partFor(kept, start, input);
      using remainder = bytesFor(start, input);
      splitRemainder({ rounded, remainder, input });
    },
  };
}

/** Half of the largest float16. */
const largestScaled = 32752;

/** The largest scale. It makes every finite float32 value finite in float16. */
const largestScale = 2 ** 112;

/**
 * Returns the smallest power of two that reduces values of this magnitude to half of float16's range. The
 * arithmetic is in float32. Returns 0 if all values are zero.
 */
function chooseScale(magnitude: number): number {
  const bits = new Uint32Array(Float32Array.of(magnitude / largestScaled).buffer);
  bits[0] = (bits[0]! + 0x7fffff) & 0x7f800000;
  return Math.min(new Float32Array(bits.buffer)[0]!, largestScale);
}

function findLargest(values: Float32Array): number {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  return largest;
}
