import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import { type Device, hasValues } from '../device.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import { Tensor } from '../tensor.js';

export interface RotaryEmbeddingOptions {
  /** A tensor with the shape of `input`. It may be the same memory as `input`. */
  readonly output: Tensor;
  /**
   * [S, B, ..., D] or [T, ..., D], with any number of dimensions for heads. May be a strided view: a single
   * call rotates the queries and keys of a packed projection through the view that `queriesAndKeys` returns.
   */
  readonly input: Tensor;
  /** int32 [S, B] or [T]: the position of every row of heads, from 0 to P - 1. */
  readonly positions: Tensor;
  /** float32 [P, R], made by `rotaryTable`. A head's elements from R on are copied. */
  readonly table: Tensor;
  /**
   * True to rotate elements 2i and 2i + 1 of a head together, instead of elements i and i + R / 2. Default:
   * false.
   */
  readonly interleaved?: boolean;
  /**
   * True to rotate by the negative angles, which computes the input's gradient from the output's gradient.
   * Default: false.
   */
  readonly inverse?: boolean;
}

/**
 * Rotary position embedding (RoPE, Su et al. 2021): the pair (a, b) of a head at position p becomes
 * (a * cos - b * sin, a * sin + b * cos), with the angle from row p of the table.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, `MTL_INDEX` for a
 *   position beyond the table
 */
export const rotaryEmbedding = returningOperation<RotaryEmbeddingOptions, 'output'>(
  'rotaryEmbedding',
  { output: ({ input }) => like(input) },
  (options) => {
    const { output, input, positions, table, interleaved = false, inverse = false } = options;
    runOperation('rotary_embedding', { output, input, positions, table, interleaved, inverse });
  },
);

export interface RotaryFrequenciesOptions {
  /** R: how many elements of a head are rotated. Must be even. */
  readonly rotarySize: number;
  /**
   * The base of the frequencies, above 0 (see `rotaryFrequencies`). It was originally 10000, and is 500000 in
   * Llama 3.
   */
  readonly base: number;
  readonly scaling?: RotaryScaling | undefined;
}

export interface RotaryTableOptions extends RotaryFrequenciesOptions {
  /** P: the number of positions. The table has a row for each of the positions 0 to P - 1. */
  readonly numPositions: number;
  readonly device?: Device;
}

const round = Math.fround;

/**
 * Returns the frequencies of the R / 2 pairs, in float32. A frequency is the angle by which its pair turns
 * from one position to the next: base^(-2i / R) for pair i, which is then scaled.
 *
 * @throws UsageError `MTL_ARGUMENT` for an odd size, and for options that are not positive
 */
export const rotaryFrequencies = checkedOperation(
  'rotaryFrequencies',
  ({ rotarySize, base, scaling }: RotaryFrequenciesOptions): Float32Array => {
    if (!Number.isInteger(rotarySize) || rotarySize < 2 || rotarySize % 2 !== 0) {
      throw new UsageError(
        'MTL_ARGUMENT',
        `rotary embedding: ${String(rotarySize)} elements of a head are rotated`,
        { expected: 'an even number of 2 or more' },
      );
    }
    checkPositive('base', base);
    if (scaling !== undefined) checkRotaryScaling(scaling, base);
    const wavelengths = Float32Array.from(
      { length: rotarySize / 2 },
      (_, i) => base ** round((2 * i) / rotarySize),
    );
    return scaledFrequencies(wavelengths, { scaling, base });
  },
);

/**
 * Returns the table for `rotaryEmbedding`, float32 [P, R]. The row of position p contains the cosines of the
 * R / 2 angles p * frequency, followed by their sines, all multiplied by YaRN's concentration. Angles are
 * rounded to float32, as in PyTorch models. The caller must dispose of the tensor.
 *
 * @throws UsageError `MTL_ARGUMENT` for options out of range (see `rotaryFrequencies`)
 */
export const rotaryTable = checkedOperation('rotaryTable', (options: RotaryTableOptions): Tensor => {
  const { numPositions, rotarySize, device = 'cpu' } = options;
  const frequencies = rotaryFrequencies(options);
  if (!Number.isInteger(numPositions) || numPositions < 1) {
    throw new UsageError('MTL_ARGUMENT', `rotary embedding: a table of ${String(numPositions)} positions`, {
      expected: 'an integer of 1 or more',
    });
  }
  const shape = [numPositions, rotarySize];
  if (!hasValues(device)) return Tensor.empty({ shape, dtype: 'float32', device });
  const concentration = options.scaling?.kind === 'yarn' ? options.scaling.concentration : 1;
  const table = new Float32Array(numPositions * rotarySize);
  for (let position = 0; position < numPositions; position++) {
    const row = position * rotarySize;
    frequencies.forEach((frequency, i) => {
      const angle = round(position * frequency);
      table[row + i] = concentration * Math.cos(angle);
      table[row + frequencies.length + i] = concentration * Math.sin(angle);
    });
  }
  return Tensor.from(table, { shape, dtype: 'float32', device });
});

/** A method for processing more positions than in pretraining. */
export type RotaryScaling =
  /** Divides all angles by `factor` (position interpolation, Chen et al. 2023). */
  { readonly kind: 'linear'; readonly factor: number } | Llama3Scaling | YarnScaling;

/**
 * Llama 3.1's method: wavelengths above `originalPositions / lowFrequencyFactor` are multiplied by `factor`,
 * wavelengths below `originalPositions / highFrequencyFactor` are kept, and wavelengths between them are
 * interpolated.
 */
export interface Llama3Scaling {
  readonly kind: 'llama3';
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  readonly originalPositions: number;
}

/**
 * YaRN (Peng et al. 2023): frequencies with at least `betaFast` turns within `originalPositions` do not
 * change. Frequencies with at most `betaSlow` turns are divided by `factor`. Frequencies between them are
 * interpolated linearly in their index.
 */
export interface YarnScaling {
  readonly kind: 'yarn';
  readonly factor: number;
  readonly originalPositions: number;
  readonly betaFast: number;
  /** A number of turns, at most `betaFast`. */
  readonly betaSlow: number;
  /** True if the range of interpolated indices is expanded to integers. */
  readonly roundsRange: boolean;
  /**
   * The factor by which cosines and sines are multiplied. It thus multiplies attention scores by its square.
   */
  readonly concentration: number;
}

const numbersOfKinds: Readonly<Record<RotaryScaling['kind'], readonly string[]>> = {
  linear: ['factor'],
  llama3: ['factor', 'lowFrequencyFactor', 'highFrequencyFactor', 'originalPositions'],
  yarn: ['factor', 'originalPositions', 'betaFast', 'betaSlow', 'concentration'],
};

const refused = (problem: string, expected: string): UsageError =>
  new UsageError('MTL_ARGUMENT', `rotary embedding: ${problem}`, { expected });

function checkPositive(name: string, value: unknown): void {
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return;
  throw refused(`${name} is ${String(value)}`, 'a finite number above 0');
}

/** @throws UsageError `MTL_ARGUMENT` */
function checkRotaryScaling(scaling: RotaryScaling, base: number): void {
  const { kind } = scaling;
  if (!Object.hasOwn(numbersOfKinds, kind)) {
    const kinds = Object.keys(numbersOfKinds).map((name) => `'${name}'`);
    throw refused(`scaling.kind is ${String(kind)}`, kinds.join(' or '));
  }
  const numbers = scaling as unknown as Readonly<Record<string, unknown>>;
  for (const name of numbersOfKinds[kind]) checkPositive(`scaling.${name}`, numbers[name]);
  if (scaling.kind === 'llama3') checkBands(scaling);
  if (scaling.kind === 'yarn') checkTurns(scaling, base);
}

function checkBands({ lowFrequencyFactor, highFrequencyFactor }: Llama3Scaling): void {
  if (highFrequencyFactor > lowFrequencyFactor) return;
  throw refused(
    `scaling.highFrequencyFactor is ${highFrequencyFactor}, scaling.lowFrequencyFactor ${lowFrequencyFactor}`,
    'a high frequency factor above the low one',
  );
}

function checkTurns({ betaFast, betaSlow, roundsRange }: YarnScaling, base: number): void {
  if (betaFast < betaSlow) {
    throw refused(
      `scaling.betaFast is ${betaFast}, scaling.betaSlow ${betaSlow}`,
      'a betaFast of betaSlow or more',
    );
  }
  if (typeof roundsRange !== 'boolean') {
    throw refused(`scaling.roundsRange is ${String(roundsRange)}`, 'true or false');
  }
  // frequencies must decrease with their index, because YaRN derives indices from frequencies
  if (base <= 1) throw refused(`base is ${base}`, "a base above 1 with the scaling 'yarn'");
}

/**
 * Returns the scaled frequencies, given the wavelengths in positions per radian. The arithmetic is in
 * float32, as in the original models' code.
 *
 * @param base the base of the powers that define the wavelengths
 */
function scaledFrequencies(
  wavelengths: Float32Array,
  { scaling, base }: { readonly scaling: RotaryScaling | undefined; readonly base: number },
): Float32Array {
  const plain = wavelengths.map((wavelength) => 1 / wavelength);
  switch (scaling?.kind) {
    case undefined:
      return plain;
    case 'linear':
      return plain.map((frequency) => frequency / scaling.factor);
    case 'llama3':
      return plain.map((frequency) => scaledByBand(frequency, scaling));
    case 'yarn':
      return mixedByIndex(wavelengths, { plain, scaling, base });
  }
}

function scaledByBand(frequency: number, scaling: Llama3Scaling): number {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalPositions } = scaling;
  const wavelength = round((2 * Math.PI) / frequency);
  if (wavelength > originalPositions / low) return frequency / factor;
  if (wavelength < originalPositions / high) return frequency;
  const smooth = round(round(round(originalPositions / wavelength) - low) / (high - low));
  return round(round(round(1 - smooth) * frequency) / factor) + round(smooth * frequency);
}

interface MixedFrequencies {
  readonly plain: Float32Array;
  readonly scaling: YarnScaling;
  readonly base: number;
}

function mixedByIndex(wavelengths: Float32Array, { plain, scaling, base }: MixedFrequencies): Float32Array {
  const { factor } = scaling;
  const { first, last } = mixedRange(scaling, { base, rotarySize: 2 * plain.length });
  return plain.map((frequency, i) => {
    const ramp = round(round(i - round(first)) / round(last - first));
    const kept = round(1 - Math.min(Math.max(ramp, 0), 1));
    const divided = round(1 / round(factor * wavelengths[i]!));
    return round(divided * round(1 - kept)) + round(frequency * kept);
  });
}

/**
 * Returns two indices: frequencies up to the first index do not change, and frequencies from the second index
 * on are divided by the factor.
 */
function mixedRange(
  { originalPositions, betaFast, betaSlow, roundsRange }: YarnScaling,
  { base, rotarySize }: { readonly base: number; readonly rotarySize: number },
): { readonly first: number; readonly last: number } {
  /**
   * Returns the index (usually a fraction) whose frequency has the given number of turns within the original
   * positions.
   */
  const computeIndex = (turns: number): number =>
    (rotarySize * Math.log(originalPositions / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const [fast, slow] = [computeIndex(betaFast), computeIndex(betaSlow)];
  const first = Math.max(roundsRange ? Math.floor(fast) : fast, 0);
  // as in the authors' code, the limit is the number of elements, not of pairs
  const last = Math.min(roundsRange ? Math.ceil(slow) : slow, rotarySize - 1);
  // if both limits are equal, the ramp becomes a step
  return { first, last: first === last ? last + 0.001 : last };
}
