import { UsageError } from '@mtl/errors';
import { type Device, hasValues, type PendingRead, Tensor, weightedSum } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import type { LossKind, LossKinds } from './loss-kinds.js';
import type { Ranks } from './ranks.js';

interface StepLossesOptions<Batch> extends LossKinds<Batch> {
  readonly device: Device;
  /** The number of micro-batches of this rank. */
  readonly numMicroBatches: number;
}

/**
 * The losses that this rank's stages compute for micro-batches, and further metrics of a step. Each loss is a
 * sum of values times weights, in float64. Losses and metrics stay on the device until a single read
 * transfers all values. In a dry run, tensors have no values: all metrics are 0, and steps continue as if
 * everything were finite. `collectParts` returns the local sums to all-reduce, and `sumsOfParts` converts the
 * reduced sums.
 */
export class StepLosses<Batch> {
  readonly #options: StepLossesOptions<Batch>;
  readonly #capacity: number;
  readonly #buffers: Tensor[] = [];
  readonly #places: Tensor[] = [];
  /** The kind and the micro-batch of each loss, and its index among all values. */
  readonly #losses: { readonly kind: number; readonly microBatch: number; readonly place: number }[] = [];

  constructor(options: StepLossesOptions<Batch>) {
    this.#options = options;
    // reserves space for a loss of each kind in each micro-batch, and for a gradient norm; further values use
    // a further buffer
    this.#capacity = options.numMicroBatches * options.losses.length + 1;
  }

  /**
   * Adds a loss that a stage has computed for a micro-batch.
   *
   * @throws UsageError `MTL_LOSS_KINDS` for a loss that is not among the losses in the options
   */
  add({ name, losses: values, weights }: StageLoss, microBatch: number): void {
    const names = this.#options.losses.map((kind) => kind.name);
    const kind = names.indexOf(name);
    if (kind < 0) {
      throw new UsageError('MTL_LOSS_KINDS', `a stage makes the loss ${name}`, {
        expected: `the losses of the training run: ${names.join(', ')}`,
        remedy: 'add it to the losses of the trainer',
      });
    }
    this.#losses.push({ kind, microBatch, place: this.#places.length });
    weightedSum({ output: this.next(), values, weights });
  }

  /**
   * Reserves space for a further value and returns its tensor, float64 [1]. The tensor belongs to this
   * object. The caller must write the tensor before `read`.
   */
  next(): Tensor {
    const offset = this.#places.length % this.#capacity;
    if (offset === 0) {
      const shape = [this.#capacity];
      this.#buffers.push(Tensor.empty({ shape, dtype: 'float64', device: this.#options.device }));
    }
    const place = this.#buffers.at(-1)!.view({ offset, shape: [1] });
    this.#places.push(place);
    return place;
  }

  /** Waits for pending writes, and returns all values in the order in which they were reserved. */
  read(): readonly number[] {
    if (!hasValues(this.#options.device)) return this.#places.map(() => 0);
    return this.#taken((numbers) => numbers.toArray()).flat();
  }

  /**
   * Starts `read` without waiting, on a device with marks (see `supportsMarks`). This object may be disposed
   * of before the read ends.
   */
  startRead(): readonly PendingRead<'float64'>[] {
    return this.#taken((numbers) => numbers.startRead<'float64'>());
  }

  /**
   * For each kind of loss, returns the sums of this rank's micro-batches in order. The list is empty for a
   * loss that no stage on this rank computes.
   *
   * @param read all values, as `read` returns them
   */
  sumsOfMicroBatches(read: readonly number[]): ReadonlyArray<readonly number[]> {
    const { losses, numMicroBatches } = this.#options;
    return losses.map((_, kind) => {
      const own = this.#losses.filter((loss) => loss.kind === kind);
      if (own.length === 0) return [];
      const sums = new Array<number>(numMicroBatches).fill(0);
      for (const { microBatch, place } of own) sums[microBatch]! += read[place]!;
      return sums;
    });
  }

  /** Calls `body` with the used part of each buffer, and returns the results. */
  #taken<Result>(body: (numbers: Tensor) => Result): Result[] {
    return this.#buffers.map((buffer, index) => {
      const numTaken = Math.min(this.#capacity, this.#places.length - index * this.#capacity);
      using taken = buffer.view({ shape: [numTaken] });
      return body(taken);
    });
  }

  [Symbol.dispose](): void {
    for (const tensor of [...this.#places, ...this.#buffers]) tensor.dispose();
  }
}

/** The properties of this rank that determine how it contributes to counts and sums of losses. */
type ShareOfLosses = Pick<Ranks, 'shareOfBatch' | 'isFirstOfStage' | 'isFirstOfSequence'>;

/**
 * For each kind of loss, returns this rank's contribution to the number of counted units in a global batch.
 * The sum over all ranks is this number.
 *
 * @param batches the micro-batches of this rank, on the host, with whole sequences
 * @param options.isLastStage true if this rank has the last stage of the pipeline, which knows the counts
 */
export function ownCounts<Batch>(
  batches: readonly Batch[],
  options: {
    readonly losses: readonly LossKind<Batch>[];
    readonly ranks: ShareOfLosses;
    readonly isLastStage: boolean;
  },
): readonly number[] {
  const { losses, ranks, isLastStage } = options;
  const isTold = ranks.isFirstOfStage && ranks.isFirstOfSequence && isLastStage;
  return losses.map(({ count }) => (isTold ? batches.reduce((sum, batch) => sum + count(batch), 0) : 0));
}

/**
 * Returns the values that this rank contributes to `sumsOfParts`, in this order:
 * 1. for each kind of loss, 1 if this rank computes it, otherwise 0
 * 2. for each kind of loss, a value for every micro-batch of the global batch, in the order in which a
 *    single process would read the samples
 *
 * Consecutive micro-batches of the global batch are on consecutive ranks (see the samplers in @mtl/data).
 *
 * @param own for each kind of loss, the sums of this rank's micro-batches; empty for a kind that this rank
 *   does not compute
 */
export function collectParts(
  own: ReadonlyArray<readonly number[]>,
  options: {
    readonly losses: ReadonlyArray<LossKind<never>>;
    readonly ranks: ShareOfLosses;
    readonly numMicroBatches: number;
  },
): readonly number[] {
  const { losses, ranks, numMicroBatches } = options;
  const { index, count } = ranks.shareOfBatch;
  const places = own.flatMap((sums, kind) => {
    const ofKind = new Array<number>(numMicroBatches * count).fill(0);
    const isTold = ranks.isFirstOfSequence || losses[kind]!.isAuxiliary !== true;
    if (!ranks.isFirstOfStage || !isTold) return ofKind;
    sums.forEach((sum, microBatch) => {
      ofKind[microBatch * count + index] = sum;
    });
    return ofKind;
  });
  return [...own.map(({ length }) => (length > 0 ? 1 : 0)), ...places];
}

/**
 * For each kind of loss, returns the sum over all micro-batches, ranks and stages. The sums are added in
 * sample order, so the result does not depend on the assignment of micro-batches to ranks.
 *
 * @param summed the sums of the results of `collectParts` over all ranks
 * @throws UsageError `MTL_LOSS_KINDS` for a kind that no stage computes
 */
export function sumsOfParts<Batch>(
  summed: readonly number[],
  { losses, lossesOfAbsentRanks = [] }: LossKinds<Batch>,
): readonly number[] {
  const missing = losses.filter(
    ({ name }, kind) => summed[kind] === 0 && !lossesOfAbsentRanks.includes(name),
  );
  if (missing.length > 0) {
    throw new UsageError('MTL_LOSS_KINDS', `no stage makes ${missing.map(({ name }) => name).join(', ')}`, {
      expected: 'the losses that the stages of the model make',
    });
  }
  const numPlaces = summed.length / losses.length - 1;
  return losses.map((_, kind) => {
    const start = losses.length + kind * numPlaces;
    return summed.slice(start, start + numPlaces).reduce((sum, value) => sum + value, 0);
  });
}
