import { type RotaryFrequenciesOptions, rotaryTable } from '@mtl/kernels';
import type { PositionTable } from './position-table.js';

/** Rotary position embeddings of an attention (Su et al. 2021). */
export interface RotarySpecification extends RotaryFrequenciesOptions {
  /** Whether elements 2i and 2i + 1 of a head are a pair; else i and i + R / 2. */
  readonly interleaved: boolean;
}

const tables = new Map<string, PositionTable>();

/** The angles of rotary position embeddings; the same object for the same frequencies. */
export function rotaryPositions({ rotarySize, base, scaling }: RotarySpecification): PositionTable {
  const key = JSON.stringify([rotarySize, base, scaling]);
  const known = tables.get(key) ?? newTable({ rotarySize, base, scaling });
  tables.set(key, known);
  return known;
}

function newTable(options: RotaryFrequenciesOptions): PositionTable {
  let values: Float32Array = new Float32Array();
  return {
    name: 'rotary angles',
    width: options.rotarySize,
    values: (numPositions) => {
      const size = numPositions * options.rotarySize;
      if (values.length < size) {
        using table = rotaryTable({ ...options, numPositions, device: 'cpu' });
        values = table.read<'float32'>();
      }
      return values.subarray(0, size);
    },
  };
}
