import { type Device, type DType, Tensor } from '@mtl/kernels';
import type { PositionTable } from '../blocks/position-table.js';

/**
 * Keys and values of several sequences, each as long as it is: [B, G, M, D] a layer, in the compute dtype;
 * and what layers read of positions.
 */
export class GptKeyValueCache {
  readonly batchSize: number;
  /** Most positions of a sequence. */
  readonly capacity: number;
  /** Positions that each sequence has; set one to 0 to use its slot for another text, or lower to go back. */
  readonly lengths: number[];
  readonly #keys: Tensor;
  readonly #values: Tensor;
  readonly #tables: ReadonlyMap<PositionTable, Tensor>;
  readonly #slotShape: readonly [number, number, number, number];

  constructor(options: {
    readonly batchSize: number;
    readonly capacity: number;
    readonly numLayers: number;
    /** G: groups of heads that share keys and values; of this rank. */
    readonly numGroups: number;
    readonly headSize: number;
    /** Those that layers read. */
    readonly positionTables?: ReadonlySet<PositionTable> | undefined;
    readonly device: Device;
    readonly dtype: DType;
  }) {
    const { batchSize, capacity, numLayers, numGroups, headSize, device, dtype } = options;
    const { positionTables = new Set() } = options;
    this.batchSize = batchSize;
    this.capacity = capacity;
    this.lengths = new Array<number>(batchSize).fill(0);
    this.#slotShape = [1, numGroups, capacity, headSize];
    const shape = [numLayers, batchSize, numGroups, capacity, headSize];
    this.#keys = Tensor.empty({ shape, dtype, device });
    this.#values = Tensor.empty({ shape, dtype, device });
    const rowsOf = (table: PositionTable): Tensor =>
      Tensor.from(table.values(capacity), { shape: [capacity, table.width], dtype: 'float32', device });
    this.#tables = new Map([...positionTables].map((table) => [table, rowsOf(table)] as const));
  }

  get bytes(): number {
    const { bytes } = this.#keys;
    return [...this.#tables.values()].reduce((sum, table) => sum + table.bytes, bytes + this.#values.bytes);
  }

  /** The cache of one sequence in one layer, [1, G, M, D]: views, the caller's to dispose of. */
  viewOf(layer: number, slot: number): { keyCache: Tensor; valueCache: Tensor } {
    const [, groups, capacity, headSize] = this.#slotShape;
    const offset = (layer * this.batchSize + slot) * groups * capacity * headSize;
    const view = (tensor: Tensor): Tensor => tensor.view({ offset, shape: this.#slotShape });
    return { keyCache: view(this.#keys), valueCache: view(this.#values) };
  }

  /** The tables of positions [M, R]: views, the caller's to dispose of. */
  tableViews(): ReadonlyMap<PositionTable, Tensor> {
    return new Map([...this.#tables].map(([table, rows]) => [table, rows.view({ shape: rows.shape })]));
  }

  dispose(): void {
    for (const rows of this.#tables.values()) rows.dispose();
    this.#keys.dispose();
    this.#values.dispose();
  }
}
