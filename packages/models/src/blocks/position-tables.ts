import { type Device, Tensor } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';

/**
 * Constants for every position, such as the angles of rotary position embeddings. A layer declares the tables
 * that it reads (`Sublayer.reads`).
 */
export interface PositionTable {
  /** The name of the constants: tables of one name have the same values. */
  readonly name: string;
  /** R: the number of constants for a position. */
  readonly width: number;
  /** float32 [numPositions, R], row by row. A table of fewer positions is a prefix of these rows. */
  values(numPositions: number): Float32Array;
}

/**
 * The position tables of a rank on its device: one copy of each, shared by layers, chunks and micro-batches.
 */
export class PositionTables {
  readonly #device: Device;
  /**
   * The copies of each table by its name, each longer than the previous one: recorded passes may still read
   * the shorter copies.
   */
  readonly #tables = new Map<string, Tensor[]>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** Returns rows of a table, float32 [numPositions, R]: a view, which the caller disposes of. */
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
