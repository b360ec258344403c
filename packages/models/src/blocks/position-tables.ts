import { type Device, Tensor } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';

/**
 * Constants for every position, such as the angles of rotary position embeddings. A layer declares the tables
 * that it reads (`Sublayer.reads`).
 */
export interface PositionTable {
  /** The name of the constants: tables of one name have the same values. */
  readonly name: string;
  /** R */
  readonly width: number;
  /** float32 [numPositions, R], row by row. A table of fewer positions is a prefix of these rows. */
  values(numPositions: number): Float32Array;
}

/**
 * The position tables of a rank on its device: one copy of each, shared by layers, chunks and micro-batches.
 */
export class PositionTables {
  readonly #device: Device;
  /** By name, growing: recorded passes may still read the shorter ones. */
  readonly #tables = new Map<string, Tensor[]>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** float32 [numPositions, R]: a view, the caller's to dispose of. */
  view(table: PositionTable, numPositions: number): Tensor {
    const { name, width } = table;
    const known = (this.#tables.get(name) ?? []).filter(({ isDisposed }) => !isDisposed);
    let longest = known.at(-1);
    if (longest === undefined || longest.dim(0) < numPositions) {
      // twice as long, so the sizes of all copies add up to at most twice the last
      longest = this.#newTensor(table, Math.max(numPositions, 2 * (longest?.dim(0) ?? 0)));
      this.#tables.set(name, [...known, longest]);
    }
    return longest.view({ shape: [numPositions, width] });
  }

  /** Releases the tables' memory; a table that is read later is made again. */
  dispose(): void {
    for (const tensor of [...this.#tables.values()].flat()) tensor.dispose();
    this.#tables.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #newTensor({ width, values }: PositionTable, numPositions: number): Tensor {
    const options = { shape: [numPositions, width], dtype: 'float32', device: this.#device } as const;
    return hasValues(this.#device) ? Tensor.from(values(numPositions), options) : Tensor.empty(options);
  }
}
