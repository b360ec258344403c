import { UsageError } from '@mtl/errors';
import { type Device, type PendingRead, Tensor, weightedSum } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';
import type { StageLoss } from '@mtl/pipeline';
import type { LossKind, LossKinds } from './loss-kinds.js';
import type { Ranks } from './ranks.js';

interface StepLossesOptions<Batch> extends LossKinds<Batch> {
  readonly device: Device;
  /** The number of micro-batches of this rank. */
  readonly numMicroBatches: number;
}

/**
 * The losses that the stages of this rank make of micro-batches, of each the sum of loss times weight, in
 * double, with further numbers of a step. They are left on the device until all are read at once, with one
 * wait for it. On devices without values all of them are 0: a step runs as if everything were finite. What
 * ranks then tell each other is `partsOf`, and `sumsOfParts` what they make of it.
 */
export class StepLosses<Batch> {
  readonly #options: StepLossesOptions<Batch>;
  readonly #capacity: number;
  readonly #buffers: Tensor[] = [];
  readonly #places: Tensor[] = [];
  /** The kind and the micro-batch of each loss, by its place among all numbers. */
  readonly #losses: { readonly kind: number; readonly microBatch: number; readonly place: number }[] = [];

  constructor(options: StepLossesOptions<Batch>) {
    this.#options = options;
    // a loss of each kind for each micro-batch, and a gradient norm; more get a buffer of their own
    this.#capacity = options.numMicroBatches * options.losses.length + 1;
  }

  /**
   * Adds a loss that a stage has made of a micro-batch.
   *
   * @throws UsageError `MTL_LOSS_KINDS` for a loss that is none of the training run's
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

  /** The place of another number, [1] float64: it stays this object's, and must be written before `read`. */
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

  /** All numbers, losses and others, in the order of their places; waits for what writes them. */
  read(): readonly number[] {
    if (!hasValues(this.#options.device)) return this.#places.map(() => 0);
    return this.#taken((numbers) => numbers.toArray()).flat();
  }

  /**
   * Begins `read` without waiting: on a device with marks (`supportsMarks`). This object may be disposed of.
   */
  startRead(): readonly PendingRead<'float64'>[] {
    return this.#taken((numbers) => numbers.startRead<'float64'>());
  }

  /**
   * Returns the sums of this rank's micro-batches, in their order, for each kind, in theirs; none for a kind
   * that no stage of this rank makes.
   *
   * @param read all numbers
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

  /** Calls `body` with the places of each buffer that were taken, and returns its results. */
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

/** The share of this rank in counts and sums of losses. */
type ShareOfLosses = Pick<Ranks, 'shareOfBatch' | 'isFirstOfStage' | 'isFirstOfSequence'>;

/**
 * Returns this rank's part of what counts of each kind of loss in a global batch: the sums of these numbers
 * over all ranks are the counts.
 *
 * @param batches micro-batches of this rank, on the host: of whole sequences
 * @param options.isLastStage true if this rank has the last stage of the pipeline, which knows what counts
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
 * Returns this rank's part of `sumsOfParts`: of each kind whether it makes it, and a place for every
 * micro-batch of the global batch, in the order of their samples, in which one process would have them.
 * (Chunks of one micro-batch a rank follow each other, see the samplers of @mtl/data.)
 *
 * @param own of each kind the sums of this rank's micro-batches; none of a kind that it does not make
 */
export function partsOf(
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
 * Returns the sum of each kind of loss over the micro-batches of all ranks and the stages that make it, added
 * in the order of the samples: it does not depend on how micro-batches were shared out.
 *
 * @param summed the sums of `partsOf` over all ranks
 * @throws UsageError `MTL_LOSS_KINDS` for a kind that no stage makes
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
