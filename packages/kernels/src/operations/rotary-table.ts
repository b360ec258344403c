import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import { type Device, hasValues } from '../device.js';
import { Tensor } from '../tensor.js';
import {
  checkPositive,
  checkRotaryScaling,
  type RotaryScaling,
  scaledFrequencies,
} from './rotary-scaling.js';

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

const round = Math.fround;

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
    if (scaling !== undefined) checkRotaryScaling(scaling, base);
    const wavelengths = Float32Array.from(
      { length: rotarySize / 2 },
      (_, i) => base ** round((2 * i) / rotarySize),
    );
    return scaledFrequencies(wavelengths, { scaling, base });
  },
);

/**
 * The table that `rotaryEmbedding` reads, float32 [P, R]: for position p the cosines of the R / 2 angles p *
 * frequency, then their sines, both multiplied by the concentration of YaRN. Angles are rounded to float32,
 * as PyTorch's models round them. A new tensor, the caller's to dispose of.
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
