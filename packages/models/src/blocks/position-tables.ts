import { type Device, hasValues, Tensor } from '@mtl/kernels';

/**
 * A table of constants for every position, such as the angles of rotary position embeddings. A layer declares
 * the tables that it reads in `Sublayer.reads`.
 */
export interface PositionTable {
  /** The table's name. Tables with the same name must have the same values. */
  readonly name: string;
  /** R: the number of constants per position. */
  readonly width: number;
  /**
   * Returns float32 [numPositions, R], in row-major order. The table for fewer positions is a prefix of the
   * table for more positions.
   */
  values(numPositions: number): Float32Array;
}

/** A rank's position tables, on its device. Layers, chunks and micro-batches share them. */
export class PositionTables {
  readonly #device: Device;
  /**
   * The copies of each table, by the table's name, sorted by length (the shortest first). When a longer copy
   * is made, shorter copies are kept, because recorded passes may still read them.
   */
  readonly #tables = new Map<string, Tensor[]>();

  #numReleases = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * Returns the first rows of a table, float32 [numPositions, R], as a view, which the caller must dispose
   * of.
   */
  view(table: PositionTable, numPositions: number): Tensor {
    const { name, width } = table;
    const known = (this.#tables.get(name) ?? []).filter(({ isDisposed }) => !isDisposed);
    let longest = known.at(-1);
    if (longest === undefined || longest.dim(0) < numPositions) {
      // A new copy is at least twice as long as the previous one, so all copies together have at most twice
      // the size of the longest copy.
      longest = this.#newTensor(table, Math.max(numPositions, 2 * (longest?.dim(0) ?? 0)));
      this.#tables.set(name, [...known, longest]);
    }
    return longest.view({ shape: [numPositions, width] });
  }

  /** How often the memory of all tables has been released. */
  get numReleases(): number {
    return this.#numReleases;
  }

  /** Releases the tables' memory. When a table is read again, it is made again. */
  dispose(): void {
    this.#numReleases += 1;
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
