import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import { type Device, hasValues } from '../device.js';
import { Tensor } from '../tensor.js';

/** How a model is made to read more positions than it was pretrained with. */
export type RotaryScaling =
  /** All angles divided by `factor` (position interpolation, Chen et al. 2023). */
  | { readonly kind: 'linear'; readonly factor: number }
  /**
   * Llama 3.1: of the wavelengths, those above `originalPositions / lowFrequencyFactor` are multiplied by
   * `factor`, those below `originalPositions / highFrequencyFactor` kept, and those between interpolated.
   */
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalPositions: number;
    };

export interface RotaryFrequenciesOptions {
  /** R: how many elements of a head are rotated; even. */
  readonly rotarySize: number;
  /** Above 0: 10000 originally, 500000 in Llama 3. */
  readonly base: number;
  readonly scaling?: RotaryScaling | undefined;
}

export interface RotaryTableOptions extends RotaryFrequenciesOptions {
  /** P: positions 0 to P - 1 get a row. */
  readonly numPositions: number;
  readonly device?: Device;
}

const isPositive = (value: unknown): boolean =>
  typeof value === 'number' && value > 0 && Number.isFinite(value);

function checkPositive(name: string, value: unknown): void {
  if (isPositive(value)) return;
  throw new UsageError('MTL_ARGUMENT', `rotary embedding: ${name} is ${String(value)}`, {
    expected: 'a finite number above 0',
  });
}

function checkScaling(scaling: RotaryScaling): void {
  checkPositive('scaling.factor', scaling.factor);
  if (scaling.kind === 'linear') return;
  if (scaling.kind !== 'llama3') {
    const { kind } = scaling as { kind: unknown };
    throw new UsageError('MTL_ARGUMENT', `rotary embedding: scaling.kind is ${String(kind)}`, {
      expected: "'linear' or 'llama3'",
    });
  }
  const { lowFrequencyFactor, highFrequencyFactor, originalPositions } = scaling;
  for (const [name, value] of Object.entries({ lowFrequencyFactor, highFrequencyFactor, originalPositions }))
    checkPositive(`scaling.${name}`, value);
  if (highFrequencyFactor > lowFrequencyFactor) return;
  throw new UsageError(
    'MTL_ARGUMENT',
    `rotary embedding: scaling.highFrequencyFactor is ${highFrequencyFactor}, scaling.lowFrequencyFactor ${lowFrequencyFactor}`,
    { expected: 'a high frequency factor above the low one' },
  );
}

const round = Math.fround;

/** A frequency after scaling; arithmetic in float32, as in the models' own code. */
function scaled(frequency: number, scaling: RotaryScaling | undefined): number {
  if (scaling === undefined) return frequency;
  if (scaling.kind === 'linear') return round(frequency / scaling.factor);
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalPositions } = scaling;
  const wavelength = round((2 * Math.PI) / frequency);
  if (wavelength > originalPositions / low) return round(frequency / factor);
  if (wavelength < originalPositions / high) return frequency;
  const smooth = round(round(round(originalPositions / wavelength) - low) / (high - low));
  return round(round((round(1 - smooth) * frequency) / factor) + round(smooth * frequency));
}

/**
 * The angles of a step of one position, in float32: frequency i of R / 2 is base^(-2i / R), then scaled.
 *
 * @throws UsageError `MTL_ARGUMENT` for a size that is not even, and for numbers that are not above 0
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
    if (scaling !== undefined) checkScaling(scaling);
    return Float32Array.from({ length: rotarySize / 2 }, (_, i) =>
      scaled(round(1 / round(base ** round((2 * i) / rotarySize))), scaling),
    );
  },
);

/**
 * The table that `rotaryEmbedding` reads, float32 [P, R]: for position p the cosines of the R / 2 angles p *
 * frequency, then their sines. Angles are rounded to float32, as PyTorch's models round them. A new tensor,
 * the caller's to dispose of.
 *
 * @throws UsageError `MTL_ARGUMENT` for numbers out of range (see `rotaryFrequencies`)
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
  const table = new Float32Array(numPositions * rotarySize);
  for (let position = 0; position < numPositions; position++) {
    const row = position * rotarySize;
    frequencies.forEach((frequency, i) => {
      const angle = round(position * frequency);
      table[row + i] = Math.cos(angle);
      table[row + frequencies.length + i] = Math.sin(angle);
    });
  }
  return Tensor.from(table, { shape, dtype: 'float32', device });
});
