import { type Device, hasValues, Tensor } from '@mtl/kernels';
import type { PositionTable } from './position-table.js';

/**
 * The position tables of a rank on its device: each once, whichever layers, chunks and micro-batches read it.
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
      // twice as long, so that all of them together are at most twice the last
      longest = this.#newTensor(table, Math.max(numPositions, 2 * (longest?.dim(0) ?? 0)));
      this.#tables.set(name, [...known, longest]);
    }
    return longest.view({ shape: [numPositions, width] });
  }

  /** Gives their memory back; a table that is read later is made anew. */
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
