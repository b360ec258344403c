import { UsageError } from '@mtl/errors';
import { cast, type Device, type DType, splitRemainder, Tensor } from '@mtl/kernels';
import { type KeptValues, plainValues, splitValues } from '../kept-values.js';
import type { FlatRange } from './flat-layout.js';

/** A model's values in the compute dtype. `starts` contains the index at which each owned range begins. */
interface ModelBuffer {
  readonly buffer: Tensor;
  readonly starts: readonly number[];
}

interface OwnedValuesOptions {
  /** The ranges that this rank updates. */
  readonly owned: readonly FlatRange[];
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** True if master values are stored as the model's values and remainders. */
  readonly storesRemainders: boolean;
  readonly model: ModelBuffer;
}

/** Returns the index at which each range starts if the ranges are stored one after another. */
export function packedStarts(ranges: readonly FlatRange[]): { starts: readonly number[]; size: number } {
  let size = 0;
  const starts = ranges.map(({ start, end }) => {
    const place = size;
    size += end - start;
    return place;
  });
  return { starts, size };
}

/**
 * The values in the ranges that this rank updates: the float32 master values, which are trained, and the
 * rounded values for the model. For a float32 model, both are the same memory. Otherwise, the master values
 * are stored one range after another. With remainders, only their lower halves are stored, as bytes.
 */
export class OwnedValues {
  readonly #options: OwnedValuesOptions;
  readonly #master: Tensor;
  readonly #masterStarts: readonly number[];

  /** Does not own the model's values. */
  constructor(options: OwnedValuesOptions) {
    const { owned, device, dtype, storesRemainders, model } = options;
    const { starts, size } = packedStarts(owned);
    const isModel = dtype === 'float32';
    this.#options = options;
    this.#masterStarts = isModel ? model.starts : starts;
    if (isModel) this.#master = model.buffer.view({ shape: [model.buffer.size] });
    else if (storesRemainders) this.#master = Tensor.zeros({ shape: [2 * size], dtype: 'uint8', device });
    else this.#master = Tensor.zeros({ shape: [size], dtype: 'float32', device });
  }

  /** See `ParameterStore.master`. */
  master(range: FlatRange): Tensor {
    if (this.#options.storesRemainders) {
      throw new UsageError('MTL_OPTIMIZER_STATE', 'master values in float32 of a store with remainders', {
        expected: 'a store without storesRemainders',
        remedy: 'read and write the values with masterValues',
      });
    }
    return this.#master.view({
      offset: this.#place(range, this.#masterStarts),
      shape: [range.end - range.start],
    });
  }

  /** See `ParameterStore.remainder`. */
  remainder(range: FlatRange): Tensor {
    const [offset, size] = [2 * this.#place(range, this.#masterStarts), 2 * (range.end - range.start)];
    return this.#master.view({ offset, shape: [size] });
  }

  /** See `ParameterStore.model`. */
  model(range: FlatRange): Tensor {
    const { buffer, starts } = this.#options.model;
    return buffer.view({ offset: this.#place(range, starts), shape: [range.end - range.start] });
  }

  /** See `ParameterStore.masterValues`. */
  masterValues(range: FlatRange): KeptValues {
    const { model, storesRemainders } = this.#options;
    const size = range.end - range.start;
    const masterStart = this.#place(range, this.#masterStarts);
    return storesRemainders
      ? splitValues(
          { buffer: model.buffer, start: this.#place(range, model.starts), size },
          { remainders: this.#master, remainderStart: masterStart },
        )
      : plainValues({ buffer: this.#master, start: masterStart, size });
  }

  /** Writes master values, rounded, to the model. */
  refreshModel(): void {
    const { owned, dtype, storesRemainders } = this.#options;
    if (dtype === 'float32' || storesRemainders) return;
    for (const range of owned) {
      using input = this.master(range);
      using output = this.model(range);
      cast({ output, input });
    }
  }

  /** Rounds float32 values in the same way as updates round master values. */
  round(input: Tensor, output: Tensor): void {
    const { storesRemainders, device } = this.#options;
    if (!storesRemainders) {
      cast({ output, input });
      return;
    }
    using remainder = Tensor.empty({ shape: [2 * input.size], dtype: 'uint8', device });
    splitRemainder({ rounded: output, remainder, input });
  }

  dispose(): void {
    this.#master.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #place(range: FlatRange, starts: readonly number[]): number {
    return placeOfRange(range, { owned: this.#options.owned, starts });
  }
}

/**
 * Returns the index at which `range` begins. `starts` contains the indices at which the owned ranges begin.
 *
 * @throws UsageError MTL_GROUP if no owned range contains `range`
 */
export function placeOfRange(
  range: FlatRange,
  { owned, starts }: { readonly owned: readonly FlatRange[]; readonly starts: readonly number[] },
): number {
  const index = owned.findIndex(({ start, end }) => start <= range.start && range.end <= end);
  if (index === -1) {
    throw new UsageError(
      'MTL_GROUP',
      `elements ${range.start} to ${range.end} are not in one range that this rank owns`,
      {
        expected: owned.map(({ start, end }) => `${start} to ${end}`).join(', '),
        remedy: 'ask for the parts that listOwnedParts(store, range) gives',
      },
    );
  }
  return starts[index]! + range.start - owned[index]!.start;
}
