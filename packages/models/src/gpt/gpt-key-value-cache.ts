import { UsageError } from '@mtl/errors';
import { cast, countElements, type Device, type DType, Tensor, tidy } from '@mtl/kernels';
import type { RecordedStep } from './recorded-step.js';

/** The shape of a layer's keys and values per position. */
interface KeyValueShape {
  /** G: how many groups of heads this rank has. The heads of a group share keys and values. */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
  /** How many earlier positions a query can attend to. Default: all. */
  readonly windowSize?: number | undefined;
}

/** New tokens of one sequence that a layer processes in a single call, and the cache for this call. */
interface CachedTokens {
  /**
   * The index of the first token in the range; 0 is the first new token of the sequence. `end` is exclusive.
   */
  readonly start: number;
  readonly end: number;
  /** The cache row for the first token in the range. */
  readonly position: number;
  /** [1, G, rows, D] */
  readonly keyCache: Tensor;
  readonly valueCache: Tensor;
}

/**
 * The minimum number of cache rows that a layer with a window has in addition to the window. It limits the
 * number of calls that a prompt needs.
 */
const leastRoom = 64;

/**
 * The keys and values of several sequences, whose lengths may differ: [B, G, rows, D] for each layer, in the
 * compute dtype. A layer without a window has one row for each position. A layer with a window keeps the rows
 * to which its next queries attend, and has room for about the same number of new rows. When this room is
 * full, the window's rows are moved to the front.
 */
export class GptKeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions in each sequence. */
  readonly capacity: number;
  /**
   * How many positions of each sequence are cached. The caller may set a length to 0 to reuse its slot for a
   * new text. A smaller positive length removes the end of the text, which is possible if the layers with a
   * window still have the rows.
   */
  readonly lengths: number[];
  readonly #keys: Tensor;
  readonly #values: Tensor;
  readonly #layers: readonly LayerSlots[];
  /** The recorded step of the model that uses this cache. The cache disposes of it. */
  recording: CacheRecording | undefined;

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
    this.#layers = layers.map(({ numGroups, headSize, windowSize = capacity }) => {
      const rows = Math.min(capacity, windowSize + Math.max(windowSize, leastRoom));
      const slotShape = [1, numGroups, rows, headSize] as const;
      const start = size;
      size += batchSize * countElements(slotShape);
      return { start, slotShape, windowSize, firsts: new Array<number>(batchSize).fill(0) };
    });
    const shape = [size];
    this.#keys = Tensor.empty({ shape, dtype, device });
    this.#values = Tensor.empty({ shape, dtype, device });
  }

  get bytes(): number {
    return this.#keys.bytes + this.#values.bytes;
  }

  /**
   * Calls `attend` for a sequence's new tokens in a layer, in order: once for all tokens, or several times if
   * the rows of a layer with a window have no room for all. Each call must append the keys and values of its
   * tokens.
   *
   * @param index the index of the layer, in the order of `layers`
   * @throws UsageError MTL_CONTEXT if `lengths` was set back to positions whose window is no longer in the
   *   cache
   */
  append(
    index: number,
    { slot, position, numTokens }: { slot: number; position: number; numTokens: number },
    attend: (tokens: CachedTokens) => void,
  ): void {
    const layer = this.#layers[index]!;
    tidy(() => {
      const caches = this.viewCaches(index, slot);
      for (let start = 0; start < numTokens; ) {
        const row = this.makeRoom(index, { slot, position: position + start });
        const end = Math.min(numTokens, start + layer.slotShape[2] - row);
        attend({ start, end, position: row, ...caches });
        start = end;
      }
    });
  }

  /** Returns views [1, G, rows, D] of a sequence's keys and values in a layer. */
  viewCaches(index: number, slot: number): { readonly keyCache: Tensor; readonly valueCache: Tensor } {
    const layer = this.#layers[index]!;
    return {
      keyCache: this.#slot(this.#keys, layer, slot),
      valueCache: this.#slot(this.#values, layer, slot),
    };
  }

  /**
   * Returns the row in which a layer stores the next position of a sequence. If no row is free, first moves
   * the window's rows to the front.
   *
   * @throws UsageError MTL_CONTEXT for the same reason as `append`
   */
  makeRoom(index: number, { slot, position }: { slot: number; position: number }): number {
    const { firsts, slotShape, windowSize } = this.#layers[index]!;
    if (position === 0) firsts[slot] = 0;
    if (firsts[slot]! > Math.max(0, position - windowSize)) throw this.#dropped(slot, position, windowSize);
    if (position - firsts[slot]! === slotShape[2]) {
      tidy(() => {
        for (const cache of Object.values(this.viewCaches(index, slot))) moveToFront(cache, windowSize);
      });
      firsts[slot] = position - windowSize;
    }
    return position - firsts[slot]!;
  }

  /**
   * Copies the keys, values and length of the sequence in slot `from` to slot `to`. Rows that layers with a
   * window have dropped are also missing in the copy.
   */
  copySequence({ from, to }: { readonly from: number; readonly to: number }): void {
    const length = this.lengths[from]!;
    tidy(() => {
      for (const layer of this.#layers) {
        const numRows = length - layer.firsts[from]!;
        for (const tensor of [this.#keys, this.#values]) {
          const [input, output] = [from, to].map((slot) =>
            firstRows(this.#slot(tensor, layer, slot), numRows),
          );
          if (numRows > 0) cast({ input: input!, output: output! });
        }
        layer.firsts[to] = layer.firsts[from]!;
      }
    });
    this.lengths[to] = length;
  }

  #slot(tensor: Tensor, { start, slotShape }: LayerSlots, slot: number): Tensor {
    return tensor.view({ offset: start + slot * countElements(slotShape), shape: slotShape });
  }

  #dropped(slot: number, position: number, windowSize: number): UsageError {
    return new UsageError(
      'MTL_CONTEXT',
      `slot ${slot} goes back to position ${position}, but a layer that sees ${windowSize} positions before its own no longer has them`,
      { expected: 'a length of 0, and the tokens again', details: { slot, position, windowSize } },
    );
  }

  dispose(): void {
    this.recording?.step?.dispose();
    this.recording = undefined;
    this.#keys.dispose();
    this.#values.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The step that a model has recorded for a cache, or will record. */
export interface CacheRecording {
  /** The slots that get a token in each step, separated by commas. */
  readonly slots: string;
  /**
   * The model that records the step. A different model with the same parameters may compute something else.
   */
  readonly model: object;
  /**
   * The handles of the model's parameters. The recorded step contains these parameters' addresses, so it is
   * valid only as long as the handles stay the same.
   */
  readonly parameters: readonly number[];
  /** The value of the position tables' `numReleases`. The step also contains the addresses of the tables. */
  readonly numReleases: number;
  /** Undefined before the second step for these slots, and if the step cannot be recorded. */
  readonly step?: RecordedStep | undefined;
  readonly isRefused?: boolean;
}

/** The places of a layer's cached rows. */
interface LayerSlots {
  /** The offset of the first sequence's rows within all keys or values. */
  readonly start: number;
  /** [1, G, rows, D] */
  readonly slotShape: readonly [1, number, number, number];
  /** How many earlier positions a query can attend to. */
  readonly windowSize: number;
  /** For each sequence, the position to which its first cached row belongs. */
  readonly firsts: number[];
}

/** Returns a view of the first `numRows` rows of a cache [1, G, rows, D] as [G, numRows, D]. */
function firstRows(cache: Tensor, numRows: number): Tensor {
  const [, numGroups, rows, headSize] = cache.shape as readonly [number, number, number, number];
  return cache.strided({ shape: [numGroups, numRows, headSize], strides: [rows * headSize, headSize, 1] });
}

/**
 * Moves the last `numRows` rows of a full cache [1, G, rows, D] to the front. `numRows` is at most half of
 * all rows, so that source and target do not overlap.
 */
function moveToFront(cache: Tensor, numRows: number): void {
  if (numRows === 0) return;
  const [, numGroups, rows, headSize] = cache.shape as readonly [number, number, number, number];
  const last = (offset: number): Tensor =>
    cache.strided({ offset, shape: [numGroups, numRows, headSize], strides: [rows * headSize, headSize, 1] });
  cast({ input: last((rows - numRows) * headSize), output: last(0) });
}
