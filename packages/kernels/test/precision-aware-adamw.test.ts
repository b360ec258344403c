import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  hostInformation,
  joinRemainder,
  numLiveTensors,
  precisionAwareAdamw,
  setInstructionSet,
  splitRemainder,
  Tensor,
} from '../src/index.js';

let before: number;
beforeEach(() => {
  before = numLiveTensors();
});
afterEach(() => {
  setInstructionSet(hostInformation().detectedInstructionSet);
  expect(numLiveTensors()).toBe(before);
});

const levels = hostInformation().usableInstructionSets;

const viewFloats = (bits: Uint32Array): Float32Array => new Float32Array(bits.buffer);
const viewBits = (floats: Float32Array): Uint32Array => new Uint32Array(floats.buffer, floats.byteOffset);

/** Returns the bits of values after they were split and joined, and the bits of the rounded values. */
function roundTrip(bits: Uint32Array) {
  const size = bits.length;
  using input = Tensor.from(viewFloats(bits), { shape: [size], dtype: 'float32' });
  using rounded = Tensor.empty({ shape: [size], dtype: 'bfloat16' });
  using remainder = Tensor.empty({ shape: [2 * size], dtype: 'uint8' });
  using output = Tensor.empty({ shape: [size], dtype: 'float32' });
  splitRemainder({ rounded, remainder, input });
  joinRemainder({ output, rounded, remainder });
  return { joined: viewBits(output.read<'float32'>()), rounded: rounded.read<'bfloat16'>() };
}

const isNotANumber = (bits: number): boolean => (bits & 0x7fffffff) > 0x7f800000;

describe.each(levels)('a float32 value as bfloat16 and its remainder, with kernels of %s', (level) => {
  // zero, a subnormal, ordinary values with even and odd last bits, the largest finite values, infinity and
  // NaN
  it.each([
    0x0000, 0x0001, 0x007f, 0x3f80, 0x3f81, 0x4049, 0x7f7f, 0x7f80, 0x7f81, 0x7fff, 0x8000, 0x8001, 0xbf80,
    0xbf81, 0xff7f, 0xff80, 0xffc0, 0xffff,
  ])('keeps all lower halves of upper half %i', (upper) => {
    setInstructionSet(level);
    const bits = Uint32Array.from({ length: 2 ** 16 }, (_, lower) => ((upper << 16) | lower) >>> 0);
    const { joined, rounded } = roundTrip(bits);
    let numWrong = 0;
    bits.forEach((each, index) => {
      if (isNotANumber(each)) {
        // a NaN that became infinity or a number would hide a fault
        const isKept = isNotANumber(joined[index]!) && (rounded[index]! & 0x7fff) > 0x7f80;
        if (!isKept || joined[index]! >>> 31 !== each >>> 31) numWrong += 1;
      } else {
        const nearest = ((each + 0x8000) >>> 16) & 0xffff;
        if (joined[index] !== each || rounded[index] !== nearest) numWrong += 1;
      }
    });
    expect(numWrong).toBe(0);
  });
});

/** Sizes and ends of segments that no vector, block or chunk of the kernel divides. */
const size = 40_003;
const segments = [100, 1, 20_001, 0, size, 1];
const numSegments = segments.length / 2;
const randomValues = (seed: number, scale = 1): Float32Array =>
  Float32Array.from({ length: size }, (_, index) => scale * Math.sin(seed * 12.9898 + index * 78.233));

const settings = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1 };
const makeScalars = (step: number): number[] => [0.01, 1 - 0.9 ** step, 1 - 0.95 ** step, 0.5, 1];

/** Runs steps with states of 16 bits over master values of one form, and returns the bits of all states. */
function train({ remainders, dtypes }: { remainders: boolean; dtypes: readonly ('bfloat16' | 'float16')[] }) {
  using initial = Tensor.from(randomValues(1), { shape: [size], dtype: 'float32' });
  using table = Tensor.from(segments, { shape: [numSegments, 2], dtype: 'int64' });
  using parameter = Tensor.empty({ shape: [size], dtype: remainders ? 'bfloat16' : 'float32' });
  using remainder = Tensor.zeros({ shape: [2 * size], dtype: 'uint8' });
  using gradient = Tensor.empty({ shape: [size], dtype: 'float32' });
  using output = Tensor.empty({ shape: [size], dtype: 'float32' });
  const [first, second] = dtypes.map((dtype) => Tensor.zeros({ shape: [size], dtype })) as [Tensor, Tensor];
  const scales = dtypes.map((dtype) =>
    dtype === 'float16' ? Tensor.zeros({ shape: [numSegments], dtype: 'float32' }) : undefined,
  );
  if (remainders) splitRemainder({ rounded: parameter, remainder, input: initial });
  else parameter.write(initial.read());
  for (let step = 1; step <= 5; step++) {
    using scalars = Tensor.from(makeScalars(step), { shape: [5], dtype: 'float32' });
    gradient.write(randomValues(step + 1, 10 ** (step - 4)));
    precisionAwareAdamw({
      ...settings,
      parameter,
      ...(remainders ? { remainder } : {}),
      firstMoment: first,
      firstScales: scales[0],
      secondMoment: second,
      secondScales: scales[1],
      gradient,
      scalars,
      segments: table,
    });
  }
  if (remainders) joinRemainder({ output, rounded: parameter, remainder });
  else output.write(parameter.read());
  const result = {
    master: viewBits(output.read<'float32'>()),
    rounded: remainders ? parameter.read<'bfloat16'>() : undefined,
    moments: [first.read(), second.read()],
    scales: scales.map((each) => each?.toArray()),
  };
  for (const tensor of [first, second, ...scales]) tensor?.dispose();
  return result;
}

describe.each(levels)('an update, with kernels of %s', (level) => {
  it.each([[['bfloat16', 'bfloat16']], [['float16', 'bfloat16']], [['float16', 'float16']]] as const)(
    'has the same bits with remainders as with separate master values: %s',
    (dtypes) => {
      setInstructionSet(level);
      const [whole, split] = [false, true].map((remainders) => train({ remainders, dtypes })) as [
        ReturnType<typeof train>,
        ReturnType<typeof train>,
      ];
      expect(split.master).toEqual(whole.master);
      expect(split.moments).toEqual(whole.moments);
      expect(split.scales).toEqual(whole.scales);
      const nearest = Uint16Array.from(whole.master, (bits) => ((bits + 0x8000) >>> 16) & 0xffff);
      expect(split.rounded).toEqual(nearest);
    },
  );

  it('brings float16 states of any magnitude into half of the range of float16, by powers of two', () => {
    setInstructionSet(level);
    const { moments, scales } = train({ remainders: false, dtypes: ['float16', 'float16'] });
    const ends = segments.filter((_, index) => index % 2 === 0);
    for (const [which, all] of scales.entries()) {
      all!.forEach((scale, segment) => {
        expect(Number.isInteger(Math.log2(scale))).toBe(true);
        using own = Tensor.from(moments[which] as Uint16Array, { shape: [size], dtype: 'float16' });
        const values = own.toArray().slice(ends[segment - 1] ?? 0, ends[segment]);
        const largest = Math.max(...values.map(Math.abs));
        expect(largest).toBeLessThanOrEqual(32752);
        expect(largest).toBeGreaterThanOrEqual(16376);
      });
    }
  });
});
