import { type Device, type DType, sizeOf, Tensor } from '@mtl/kernels';

/** The keys and values that a layer has for each position. */
interface KeyValueShape {
  /** G: groups of heads that share keys and values; of this rank. */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
}

/**
 * Keys and values of several sequences of different lengths: [B, G, M, D] for each layer, in the compute
 * dtype.
 */
export class GptKeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions of a sequence. */
  readonly capacity: number;
  /**
   * The number of positions of each sequence. Set one to 0 to use its slot for another text, or lower to go
   * back.
   */
  readonly lengths: number[];
  readonly #keys: Tensor;
  readonly #values: Tensor;
  /** For each layer: the start of its first sequence, and the shape of one slot. */
  readonly #layers: readonly { readonly start: number; readonly slotShape: readonly number[] }[];

  constructor(options: {
    readonly batchSize: number;
    readonly capacity: number;
    readonly layers: readonly KeyValueShape[];
    readonly device: Device;
    readonly dtype: DType;
  }) {
    const { batchSize, capacity, layers, device, dtype } = options;
    this.batchSize = batchSize;
    this.capacity = capacity;
    this.lengths = new Array<number>(batchSize).fill(0);
    let size = 0;
    this.#layers = layers.map(({ numGroups, headSize }) => {
      const start = size;
      size += batchSize * numGroups * capacity * headSize;
      return { start, slotShape: [1, numGroups, capacity, headSize] };
    });
    const shape = [size];
    this.#keys = Tensor.empty({ shape, dtype, device });
    this.#values = Tensor.empty({ shape, dtype, device });
  }

  get bytes(): number {
    return this.#keys.bytes + this.#values.bytes;
  }

  /** Returns the cache of one sequence in one layer, [1, G, M, D]: views, which the caller disposes of. */
  viewOf(layer: number, slot: number): { keyCache: Tensor; valueCache: Tensor } {
    const { start, slotShape } = this.#layers[layer]!;
    const offset = start + slot * sizeOf(slotShape);
    const view = (tensor: Tensor): Tensor => tensor.view({ offset, shape: slotShape });
    return { keyCache: view(this.#keys), valueCache: view(this.#values) };
  }

  dispose(): void {
    this.#keys.dispose();
    this.#values.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
