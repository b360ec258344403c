import { type RotaryFrequenciesOptions, rotaryTable } from '@mtl/kernels';
import type { PositionTable } from './position-table.js';

/** Rotary position embeddings of an attention (Su et al. 2021). */
export interface RotarySpecification extends RotaryFrequenciesOptions {
  /** Whether elements 2i and 2i + 1 of a head are a pair; else i and i + R / 2. */
  readonly interleaved: boolean;
}

/** The angles of rotary position embeddings. */
export function rotaryPositions({ rotarySize, base, scaling }: RotarySpecification): PositionTable {
  const options: RotaryFrequenciesOptions = { rotarySize, base, scaling };
  return {
    name: `rotary angles ${JSON.stringify(options)}`,
    width: rotarySize,
    values: (numPositions) => {
      using table = rotaryTable({ ...options, numPositions, device: 'cpu' });
      return table.read<'float32'>();
    },
  };
}
