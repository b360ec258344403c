import { type Device, type DType, Tensor } from '@mtl/kernels';

/**
 * Keys and values of several sequences, each as long as it is: [B, G, M, D] a layer, in the compute dtype.
 */
export class GptKeyValueCache {
  readonly batchSize: number;
  /** Most positions of a sequence. */
  readonly capacity: number;
  /** Positions that each sequence has; set one to 0 to use its slot for another text, or lower to go back. */
  readonly lengths: number[];
  readonly #keys: Tensor;
  readonly #values: Tensor;
  readonly #slotShape: readonly [number, number, number, number];

  constructor(options: {
    readonly batchSize: number;
    readonly capacity: number;
    readonly numLayers: number;
    /** G: groups of heads that share keys and values; of this rank. */
    readonly numGroups: number;
    readonly headSize: number;
    readonly device: Device;
    readonly dtype: DType;
  }) {
    const { batchSize, capacity, numLayers, numGroups, headSize, device, dtype } = options;
    this.batchSize = batchSize;
    this.capacity = capacity;
    this.lengths = new Array<number>(batchSize).fill(0);
    this.#slotShape = [1, numGroups, capacity, headSize];
    const shape = [numLayers, batchSize, numGroups, capacity, headSize];
    this.#keys = Tensor.empty({ shape, dtype, device });
    this.#values = Tensor.empty({ shape, dtype, device });
  }

  get bytes(): number {
    return this.#keys.bytes + this.#values.bytes;
  }

  /** The cache of one sequence in one layer, [1, G, M, D]: views, the caller's to dispose of. */
  viewOf(layer: number, slot: number): { keyCache: Tensor; valueCache: Tensor } {
    const [, groups, capacity, headSize] = this.#slotShape;
    const offset = (layer * this.batchSize + slot) * groups * capacity * headSize;
    const view = (tensor: Tensor): Tensor => tensor.view({ offset, shape: this.#slotShape });
    return { keyCache: view(this.#keys), valueCache: view(this.#values) };
  }

  dispose(): void {
    this.#keys.dispose();
    this.#values.dispose();
  }
}
