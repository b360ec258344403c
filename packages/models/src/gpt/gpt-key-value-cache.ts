import { UsageError } from '@mtl/errors';
import { cast, countElements, type Device, type DType, Tensor, tidy } from '@mtl/kernels';
import type { RecordedStep } from './recorded-step.js';

/** The shape of a layer's keys and values per position. */
interface KeyValueShape {
  /** G: the number of this rank's groups of heads. The heads of a group share keys and values. */
  readonly numGroups: number;
  /** D */
  readonly headSize: number;
  /** The number of earlier positions that a query can attend to. Default: all. */
  readonly windowSize?: number | undefined;
}

/** New tokens of a sequence that a layer processes in one call, and the cache for this call. */
interface CachedTokens {
  /** The range of tokens, where 0 is the first new token of the sequence. */
  readonly start: number;
  readonly end: number;
  /** The row in the cache of the first token in the range. */
  readonly position: number;
  /** [1, G, rows, D] */
  readonly keyCache: Tensor;
  readonly valueCache: Tensor;
}

/**
 * The minimum number of cache rows beyond the window in a layer with a window. It limits the number of calls
 * for a prompt.
 */
const leastRoom = 64;

/**
 * The keys and values of several sequences of different lengths: [B, G, rows, D] for each layer, in the
 * compute dtype. A layer without a window has one row for each position. A layer with a window keeps the rows
 * for its next queries, and room for about the same number of new rows. When this room is full, the rows of
 * the window are moved to the front.
 */
export class GptKeyValueCache {
  readonly batchSize: number;
  /** The maximum number of positions in a sequence. */
  readonly capacity: number;
  /**
   * The number of cached positions of each sequence. The caller may set a length to 0 to reuse its slot for
   * another text. A lower value goes back in the text, if the layers with a window still have the rows.
   */
  readonly lengths: number[];
  readonly #keys: Tensor;
  readonly #values: Tensor;
  readonly #layers: readonly LayerSlots[];
  /** The recorded step of the model that uses the cache; the cache disposes of it. */
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
   * Calls `attend` for the new tokens of a sequence in a layer, in order. There is one call for all tokens,
   * or several calls if the window's rows have no room for all. Each call must append the keys and values of
   * its tokens.
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

  /** Returns views of the keys and values of a sequence in a layer, [1, G, rows, D]. */
  viewCaches(index: number, slot: number): { readonly keyCache: Tensor; readonly valueCache: Tensor } {
    const layer = this.#layers[index]!;
    return {
      keyCache: this.#slot(this.#keys, layer, slot),
      valueCache: this.#slot(this.#values, layer, slot),
    };
  }

  /**
   * Returns the row of a layer for the next position of a sequence. If no row is free, the rows of the window
   * are moved to the front before.
   *
   * @throws UsageError MTL_CONTEXT, as `append`
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
   * Copies the keys, values and length of the sequence in slot `from` to slot `to`. The copy also lacks rows
   * that layers with a window have dropped.
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

/** The step that a model has recorded, or will record, over a cache. */
export interface CacheRecording {
  /** The slots that get a token in each step. */
  readonly slots: string;
  /** The model that records the step. Another model over the same parameters may compute something else. */
  readonly model: object;
  /** The handles of the model's parameters, whose addresses the step contains. */
  readonly parameters: readonly number[];
  /** `numReleases` of the position tables, whose addresses the step contains, too. */
  readonly numReleases: number;
  /** Undefined before the second step of these slots, and if the step cannot be recorded. */
  readonly step?: RecordedStep | undefined;
  readonly isRefused?: boolean;
}

/** The places of a layer's cached rows. */
interface LayerSlots {
  /** The offset of the first sequence's rows among all values. */
  readonly start: number;
  /** [1, G, rows, D] */
  readonly slotShape: readonly [1, number, number, number];
  /** The number of earlier positions that a query can attend to. */
  readonly windowSize: number;
  /** The position that the first cached row of each sequence belongs to. */
  readonly firsts: number[];
}

/** Returns the first rows of a cache [1, G, rows, D] as [G, numRows, D]. */
function firstRows(cache: Tensor, numRows: number): Tensor {
  const [, numGroups, rows, headSize] = cache.shape as readonly [number, number, number, number];
  return cache.strided({ shape: [numGroups, numRows, headSize], strides: [rows * headSize, headSize, 1] });
}

/**
 * Moves the last rows of a full cache [1, G, rows, D] to the front. `numRows` is at most half of all rows, so
 * that source and target do not overlap.
 */
function moveToFront(cache: Tensor, numRows: number): void {
  if (numRows === 0) return;
  const [, numGroups, rows, headSize] = cache.shape as readonly [number, number, number, number];
  const last = (offset: number): Tensor =>
    cache.strided({ offset, shape: [numGroups, numRows, headSize], strides: [rows * headSize, headSize, 1] });
  cast({ input: last((rows - numRows) * headSize), output: last(0) });
}
